// A scheduler that errs is overruled, and the answers stay right.

#include <algorithm>
#include <string>

#include "backplane/scheduler.hpp"
#include "core/engine/decision.hpp"
#include "fixture.hpp"

namespace bp::engine::testing {
namespace {

enum class Fault { kNothing, kTooMany, kOverBudget, kPreemptsWaiting, kUnknownAction, kError };

// Wrong in the way of `kFault`, at every step.
template <Fault kFault>
class WrongScheduler final : public Scheduler {
 public:
  static Result<std::unique_ptr<Scheduler>> create(const Host&, const Params&) {
    return std::unique_ptr<Scheduler>(std::make_unique<WrongScheduler>());
  }
  Status schedule(const bp_snapshot& s, bp_decision& d) override {
    if (kFault == Fault::kError) return internal_error("no idea");
    for (uint32_t i = 0; i < s.n_seqs; ++i) {
      if (kFault == Fault::kTooMany) d.n_tokens[i] = s.n_tokens[i] + 1;
      if (kFault == Fault::kOverBudget) d.n_tokens[i] = s.max_step_tokens + 1;
      if (kFault == Fault::kUnknownAction) d.preempt[i] = 77;
      if (kFault == Fault::kPreemptsWaiting && s.state[i] == BP_SEQ_WAITING) d.preempt[i] = 1;
    }
    return {};
  }
};

template <Fault kFault>
constexpr bp_scheduler_factory kFactory = scheduler_factory<WrongScheduler<kFault>>();

class SchedulerFaultTest : public EngineTest,
                           public ::testing::WithParamInterface<const bp_scheduler_factory*> {};

TEST_P(SchedulerFaultTest, FallsBackToFirstComeFirstServed) {
  EngineOptions options;
  options.scheduler = GetParam();
  options.n_blocks = 31;
  options.limits.context = 100;
  start(options);
  std::vector<Request> requests;
  for (uint32_t i = 0; i < 6; ++i) requests.push_back(make_request(make_prompt(i, 18), 40));
  const auto sinks = submit_together(std::move(requests));
  for (uint32_t i = 0; i < 6; ++i) {
    EXPECT_EQ(sinks[i]->wait()[0].tokens, greedy(make_prompt(i, 18), 40)) << i;
  }
  EXPECT_GT(engine->stats().invalid_decisions.get(), 10u);
  EXPECT_GT(engine->stats().preemptions.get(), 0u);
}

INSTANTIATE_TEST_SUITE_P(Faults, SchedulerFaultTest,
                         ::testing::Values(&kFactory<Fault::kNothing>, &kFactory<Fault::kTooMany>,
                                           &kFactory<Fault::kOverBudget>,
                                           &kFactory<Fault::kPreemptsWaiting>,
                                           &kFactory<Fault::kUnknownAction>,
                                           &kFactory<Fault::kError>),
                         [](const auto& fault) { return "Fault" + std::to_string(fault.index); });

// One running sequence with a token to decode and no block for it, and one waiting.
struct Columns {
  std::vector<uint64_t> id{1, 2};
  std::vector<uint32_t> state{BP_SEQ_RUNNING, BP_SEQ_WAITING};
  std::vector<uint32_t> n_tokens{9, 6}, n_computed{8, 0}, n_cached{0, 0}, n_held{2, 0};
  std::vector<uint32_t> run{0, 0}, draft{0, 0}, preempt{0, 0};
  bp_snapshot snapshot = make_growable<bp_snapshot>();
  bp_decision decision = make_growable<bp_decision>();

  explicit Columns(uint32_t free_blocks) {
    snapshot.n_seqs = 2;
    snapshot.max_step_tokens = 8;
    snapshot.max_sequences = 2;
    snapshot.block_size = 4;
    snapshot.free_blocks = free_blocks;
    snapshot.id = id.data();
    snapshot.state = state.data();
    snapshot.n_tokens = n_tokens.data();
    snapshot.n_computed = n_computed.data();
    snapshot.n_cached = n_cached.data();
    snapshot.n_held = n_held.data();
    decision.n_seqs = 2;
    decision.n_tokens = run.data();
    decision.n_draft = draft.data();
    decision.preempt = preempt.data();
  }
};

TEST(DecisionTest, BlocksAreCounted) {
  Columns c(2);
  c.run = {1, 6};
  EXPECT_FALSE(check_decision(c.snapshot, c.decision).ok());
  c.run = {1, 4};
  EXPECT_TRUE(check_decision(c.snapshot, c.decision).ok());
  c.run = {0, 6};
  EXPECT_TRUE(check_decision(c.snapshot, c.decision).ok());
  c.run = {0, 0};
  EXPECT_FALSE(check_decision(c.snapshot, c.decision).ok());
  c.draft = {1, 0};
  c.run = {1, 0};
  EXPECT_FALSE(check_decision(c.snapshot, c.decision).ok());
}

TEST(DecisionTest, FirstComeFirstServedIsAlwaysValid) {
  for (uint32_t free_blocks = 1; free_blocks < 6; ++free_blocks) {
    Columns c(free_blocks);
    decide_first_come_first_served(c.snapshot, c.decision);
    EXPECT_TRUE(check_decision(c.snapshot, c.decision).ok()) << free_blocks;
    EXPECT_EQ(c.run[0], 1u);
  }
}

}  // namespace
}  // namespace bp::engine::testing
