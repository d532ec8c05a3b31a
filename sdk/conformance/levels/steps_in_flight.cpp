// Convention 3 of backend.h: how many steps are in flight, for backends of every kind.

#include <deque>
#include <memory>

#include "sdk/conformance/levels/steps.hpp"
#include "sdk/conformance/support/llama_session.hpp"
#include "sdk/conformance/support/steps_in_flight.hpp"

namespace bp::conformance {

namespace {

constexpr uint32_t kMostInFlight = 32, kPromptTokens = 5;

// Prompts of sequences of their own; the submit too many would write into the first one's block.
void refuses_a_submit_too_many(Subject& subject) {
  const std::unique_ptr<TinyLlama> llama = make_llama(subject);
  LlamaSession session(subject, *llama);
  const uint32_t most = session.backend().memory().max_in_flight;
  require(most > 0, "memory says that no step may be in flight: max_in_flight is 0");
  if (most > kMostInFlight) {
    throw Skip("max_in_flight is " + std::to_string(most) + ", the test is for 1 to " +
               std::to_string(kMostInFlight));
  }
  const auto block_of = [](uint32_t i) { return Ints{static_cast<int32_t>(1 + i)}; };
  StepsInFlight flight(session.backend(), most);
  std::deque<BatchBuilder> steps;
  for (uint32_t i = 0; i < most; ++i) {
    steps.push_back(LlamaSession::one(tokens_of(i, kPromptTokens), 0, block_of(i)));
    const bp_status status = flight.submit_beyond(steps.back(), 1);
    require(status == BP_OK, "step " + std::to_string(i) + " of " + std::to_string(most) +
                                 " in flight: " + flight.message(status));
  }
  BatchBuilder beyond = LlamaSession::one(tokens_of(most, kPromptTokens), 0, block_of(0));
  const bp_status status = flight.submit_beyond(beyond, 1);
  require(status == BP_INVALID_ARGUMENT,
          "a submit beyond max_in_flight, which is " + std::to_string(most) +
              ", must give INVALID_ARGUMENT, it gave status " + std::to_string(status));
  require(!flight.message(status).empty(), "the error of a submit too many has no message");
  flight.collect_all();
  for (uint32_t i = 0; i < most; ++i) {
    const std::string broken = steps[i].broken_rule();
    require(broken.empty(), "a step in flight when one too many came: " + broken);
    const Floats alone = session.logits(tokens_of(i, kPromptTokens), 0, block_of(most + i));
    require(same_within_bounds(alone, steps[i].output(0)),
            "the logits of a step are not those of it alone, after a submit too many");
  }
  const Ints next = {7};
  require(same_within_bounds(session.logits(next, kPromptTokens, block_of(most)),
                             session.logits(next, kPromptTokens, block_of(0))),
          "a submit too many has changed the KV of a sequence");
}

}  // namespace

void add_in_flight_steps_tests(Tests& tests) {
  tests.push_back({"steps-in-flight", "steps",
                   "a submit beyond max_in_flight is refused and changes nothing",
                   refuses_a_submit_too_many});
}

}  // namespace bp::conformance
