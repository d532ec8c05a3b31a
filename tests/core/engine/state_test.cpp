// Sequences of a model with state: whoever shares, preempts, cancels or fails, each goes on in the
// state of its own history. The fake backend compares the two.

#include <algorithm>
#include <chrono>
#include <random>
#include <thread>

#include "fixture.hpp"

namespace bp::engine::testing {
namespace {

using namespace std::chrono_literals;

class StateTest : public EngineTest {
 protected:
  static EngineOptions with_entries(uint32_t n) {
    EngineOptions options;
    options.n_state_entries = n;
    options.limits.max_sequences = std::min(options.limits.max_sequences, n - 1);
    return options;
  }
  void start_with_state(const EngineOptions& options) {
    model.has_state = true;
    start(options);
  }
  void expect_greedy(const std::shared_ptr<CollectingSink>& sink,
                     const std::vector<int32_t>& prompt, uint32_t n, uint32_t n_choices = 1) {
    for (const Answer& answer : sink->wait(n_choices)) {
      EXPECT_EQ(answer.tokens, greedy(prompt, n)) << answer.finish.error;
    }
  }
};

TEST_F(StateTest, PromptsInChunksGoOnWhereTheyWere) {
  EngineOptions options = with_entries(17);
  options.limits.max_step_tokens = 7;
  start_with_state(options);
  std::vector<std::shared_ptr<CollectingSink>> sinks;
  for (uint32_t i = 0; i < 12; ++i)
    sinks.push_back(submit(make_request(make_prompt(i, 5 + 9 * i), 15)));
  for (uint32_t i = 0; i < 12; ++i) expect_greedy(sinks[i], make_prompt(i, 5 + 9 * i), 15);
  EXPECT_GT(model.n_states_in_place, 100u);
}

TEST_F(StateTest, APromptSeenBeforeIsComputedAgain) {
  start_with_state(with_entries(5));
  const auto prompt = make_prompt(3, 40);
  for (int i = 0; i < 2; ++i) {
    const Answer answer = run(make_request(prompt, 8));
    EXPECT_EQ(answer.tokens, greedy(prompt, 8));
    EXPECT_EQ(answer.finish.usage.n_cached, 0u);
  }
  EXPECT_EQ(model.n_computed_tokens, 2u * (40 + 7));
}

TEST_F(StateTest, ChoicesBeginWithTheStateOfTheirPrompt) {
  start_with_state(with_entries(17));
  Request request = make_request(make_prompt(4, 33), 20);
  request.n = 5;
  expect_greedy(submit(request), request.prompt, 20, 5);
  EXPECT_GT(model.n_states_shared, 0u);
}

// The last choice waits a step for the entry that the others leave.
TEST_F(StateTest, ChoicesThatFillTheEntriesShareTheComputedPrompt) {
  start_with_state(with_entries(6));
  Request request = make_request(make_prompt(4, 33), 20);
  request.n = 5;
  expect_greedy(submit(request), request.prompt, 20, 5);
  EXPECT_EQ(engine->stats().preemptions.get(), 0u);
  EXPECT_EQ(model.n_computed_tokens, 33u + 5 * 19);
}

// Three entries, and five choices that begin with one of them.
TEST_F(StateTest, ChoicesWithoutAnEntryAreComputedAgain) {
  start_with_state(with_entries(4));
  Request request = make_request(make_prompt(5, 21), 12);
  request.n = 5;
  auto choices = submit(request);
  auto other = submit(make_request(make_prompt(6, 30), 12));
  expect_greedy(choices, request.prompt, 12, 5);
  expect_greedy(other, make_prompt(6, 30), 12);
  EXPECT_GT(engine->stats().preemptions.get(), 0u);
}

TEST_F(StateTest, OneEntryServesOneAfterTheOther) {
  start_with_state(with_entries(2));
  Request request = make_request(make_prompt(7, 10), 9);
  request.n = 3;
  auto choices = submit(request);
  auto other = submit(make_request(make_prompt(8, 12), 9));
  expect_greedy(choices, request.prompt, 9, 3);
  expect_greedy(other, make_prompt(8, 12), 9);
}

TEST_F(StateTest, PreemptedSequencesBeginAnew) {
  EngineOptions options = with_entries(17);
  options.n_blocks = 40;
  start_with_state(options);
  std::vector<Request> requests;
  for (uint32_t i = 0; i < 10; ++i) requests.push_back(make_request(make_prompt(i, 20), 40));
  const auto sinks = submit_together(std::move(requests));
  for (uint32_t i = 0; i < 10; ++i) expect_greedy(sinks[i], make_prompt(i, 20), 40);
  EXPECT_GT(engine->stats().preemptions.get(), 0u);
}

TEST_F(StateTest, CancelledAndFailedStepsGiveTheirEntriesBack) {
  start_with_state(with_entries(4));
  model.delay_us = 300;
  std::mt19937 random(5);
  std::vector<std::shared_ptr<CollectingSink>> sinks;
  for (uint32_t i = 0; i < 60; ++i) {
    RequestId id = 0;
    sinks.push_back(
        submit(make_request(make_prompt(i, 4 + random() % 50), 1 + random() % 30), &id));
    if (random() % 2 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 1500));
    if (random() % 3 != 0) engine->cancel(id);
    if (i % 20 == 10) model.fail_at = 3;
  }
  for (const auto& sink : sinks) sink->wait();
  wait_until_idle();
  model.delay_us = 0;
  model.fail_at = -1;
  std::vector<std::shared_ptr<CollectingSink>> healthy;
  for (uint32_t i = 0; i < 3; ++i) healthy.push_back(submit(make_request(make_prompt(i, 17), 12)));
  for (uint32_t i = 0; i < 3; ++i) expect_greedy(healthy[i], make_prompt(i, 17), 12);
}

}  // namespace
}  // namespace bp::engine::testing
