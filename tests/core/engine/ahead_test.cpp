// A step is begun before the one before is collected, with its tokens named by their rows.

#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "backplane/scheduler.hpp"
#include "core/engine/decision.hpp"
#include "fixture.hpp"

namespace bp::engine::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::SizeIs;

class AheadTest : public EngineTest {
 protected:
  AheadTest() {
    model.runs_ahead = true;
    model.max_candidates = 64;
  }
  // Requests of one token up to n, whose answers end at different steps.
  static std::vector<Request> staggered(uint32_t n) {
    std::vector<Request> requests;
    for (uint32_t i = 1; i <= n; ++i) requests.push_back(make_request(make_prompt(i, 5 + i), i));
    return requests;
  }
  void expect_greedy(const Answer& answer, const std::vector<int32_t>& prompt, uint32_t n) const {
    const std::vector<int32_t> expected = greedy(prompt, n);
    EXPECT_EQ(answer.finish.usage.n_generated, expected.size());
    EXPECT_EQ(answer.tokens, expected);
  }
  void expect_staggered(const std::vector<std::shared_ptr<CollectingSink>>& sinks) const {
    for (uint32_t i = 1; i <= sinks.size(); ++i) {
      expect_greedy(sinks[i - 1]->wait()[0], make_prompt(i, 5 + i), i);
    }
  }
};

// First come first served, but that a prompt's second half is computed twice.
class PreemptOnce final : public Scheduler {
 public:
  static Result<std::unique_ptr<Scheduler>> create(const Host&, const Params&) {
    return std::unique_ptr<Scheduler>(std::make_unique<PreemptOnce>());
  }
  Status schedule(const bp_snapshot& snapshot, bp_decision& decision) override {
    if (!is_done_ && snapshot.state[0] == BP_SEQ_RUNNING && snapshot.n_computed[0] == 16) {
      is_done_ = true;
      decision.preempt[0] = BP_PREEMPT_RECOMPUTE;
    } else {
      decide_first_come_first_served(snapshot, decision);
    }
    return {};
  }

 private:
  bool is_done_ = false;
};
constexpr bp_scheduler_factory kPreemptOnce = scheduler_factory<PreemptOnce>();

// The step that is committed has recomputed what is known; the one ahead has reached the end.
TEST_F(AheadTest, PromptLogprobsSurviveAPreemption) {
  EngineOptions options;
  options.scheduler = &kPreemptOnce;
  options.limits.max_step_tokens = 16;
  start(options);
  Request request = make_request(make_prompt(1, 30), 4);
  request.prompt_logprobs = true;
  const auto sink = submit(request);
  sink->wait();
  EXPECT_EQ(engine->stats().preemptions.get(), 1u);
  EXPECT_THAT(sink->prompt_logprobs(), SizeIs(29));
}

TEST_F(AheadTest, AnswersOfKnownLengthTakeNoStepMore) {
  start();
  expect_greedy(run(make_request(make_prompt(1, 9), 20)), make_prompt(1, 9), 20);
  wait_until_idle();
  EXPECT_EQ(model.n_steps, 20u);
  EXPECT_EQ(model.n_steps_ahead, 19u);
  EXPECT_EQ(model.n_computed_tokens, 9u + 19u);
}

TEST_F(AheadTest, AnswersThatEndAtDifferentStepsDisturbNoOther) {
  start();
  expect_staggered(submit_together(staggered(14)));
  EXPECT_GT(model.n_steps_ahead, 10u);
}

// The step that followed had computed a token behind the end, in a block of the answer.
TEST_F(AheadTest, WhatFollowsAnEndIsDropped) {
  const auto prompt = make_prompt(3, 10);
  model.script = [](std::span<const int32_t> history) {
    return history.size() == 17 ? std::optional(kEos) : std::nullopt;
  };
  start();
  const Answer first = run(make_request(prompt, 40));
  EXPECT_EQ(first.finish.reason, FinishReason::kStop);
  EXPECT_THAT(first.tokens, SizeIs(8));
  expect_greedy(first, prompt, 40);
  wait_until_idle();
  EXPECT_EQ(model.n_steps, 9u);

  // Nothing of it is found by those that come after.
  auto longer = prompt;
  longer.insert(longer.end(), first.tokens.begin(), first.tokens.end());
  for (uint32_t seed = 0; seed < 5; ++seed) {
    auto next = longer;
    for (const int32_t token : make_prompt(seed, 6)) next.push_back(token);
    const Answer answer = run(make_request(next, 6));
    expect_greedy(answer, next, 6);
    EXPECT_GT(answer.finish.usage.n_cached, 0u);
    EXPECT_LE(answer.finish.usage.n_cached, longer.size());
  }
}

TEST_F(AheadTest, StopStringsEndAnswersLikewise) {
  model.script = [](std::span<const int32_t> history) {
    return std::optional(byte_token(static_cast<char>('a' + history.size() % 26)));
  };
  start();
  Request request = make_request(make_prompt(3, 10), 40);
  request.stop = {"pq"};
  const Answer answer = run(std::move(request));
  EXPECT_EQ(answer.finish.reason, FinishReason::kStop);
  EXPECT_EQ(answer.text, "klmno");
  EXPECT_EQ(answer.finish.usage.n_generated, 7u);
}

TEST_F(AheadTest, RowsThatTheHostDrawsFromAreWaitedFor) {
  start();
  Request biased = make_request(make_prompt(1, 9), 12);
  biased.logit_bias = {{100, 0.5f}};
  run(biased);
  EXPECT_EQ(model.n_steps_ahead, 0u);

  // Beside others they make these wait too.
  biased.max_tokens = 4;
  const auto sinks = submit_together({std::move(biased), make_request(make_prompt(2, 9), 24)});
  expect_greedy(sinks[1]->wait()[0], make_prompt(2, 9), 24);
  EXPECT_GT(model.n_steps_ahead, 15u);
  EXPECT_LT(model.n_steps_ahead, 22u);
}

TEST_F(AheadTest, ArrivalsJoinTheStepThatFollows) {
  start();
  model.delay_us = 500;
  std::vector<std::shared_ptr<CollectingSink>> sinks;
  for (uint32_t i = 0; i < 30; ++i) {
    sinks.push_back(submit(make_request(make_prompt(i, 3 + 2 * i), 10 + i % 7)));
    std::this_thread::sleep_for(1ms);
  }
  for (uint32_t i = 0; i < 30; ++i) {
    expect_greedy(sinks[i]->wait()[0], make_prompt(i, 3 + 2 * i), 10 + i % 7);
  }
}

TEST_F(AheadTest, SequencesArePreemptedWhileTheirTokensAreExpected) {
  for (const uint64_t swap_bytes : {0, 1 << 20}) {
    EngineOptions options;
    options.n_blocks = 25;
    options.limits.context = 64;
    options.limits.swap_bytes = swap_bytes;
    model.transfers = swap_bytes > 0;
    start(options);
    std::vector<Request> requests;
    for (uint32_t i = 0; i < 10; ++i) requests.push_back(make_request(make_prompt(i, 9), 30));
    const auto sinks = submit_together(std::move(requests));
    for (uint32_t i = 0; i < 10; ++i) expect_greedy(sinks[i]->wait()[0], make_prompt(i, 9), 30);
    EXPECT_GT(engine->stats().preemptions.get(), 0u);
    EXPECT_EQ(engine->stats().swap_in_blocks.get() > 0, swap_bytes > 0);
  }
}

TEST_F(AheadTest, StatesGoFromStepToStep) {
  model.has_state = true;
  EngineOptions options;
  options.n_state_entries = 12;
  start(options);
  expect_staggered(submit_together(staggered(14)));
}

TEST_F(AheadTest, CancelledAnswersCountTheTokensThatCame) {
  start();
  model.delay_us = 300;
  for (uint32_t i = 0; i < 20; ++i) {
    RequestId id = 0;
    const auto kept = submit(make_request(make_prompt(100 + i, 8), 12));
    const auto cancelled = submit(make_request(make_prompt(i, 8), 200), &id);
    cancelled->wait_for_tokens(1 + i % 5);
    engine->cancel(id);
    const Answer answer = cancelled->wait()[0];
    EXPECT_EQ(answer.finish.reason, FinishReason::kCancelled);
    EXPECT_EQ(answer.finish.usage.n_generated, answer.tokens.size());
    expect_greedy(kept->wait()[0], make_prompt(100 + i, 8), 12);
  }
  wait_until_idle();
  EXPECT_EQ(engine->stats().kv_blocks_used.get(), 0u);
}

// Of two in flight, the second fails what the first did not end.
TEST_F(AheadTest, AStepThatFailsEndsItsOwnSequences) {
  start();
  for (int n = 0; n < 12; ++n) {
    for (auto* fails : {&model.fail_at, &model.fail_collect_at}) {
      *fails = n;
      const auto sinks = submit_together(staggered(10));
      for (uint32_t i = 1; i <= 10; ++i) {
        const Answer answer = sinks[i - 1]->wait()[0];
        const std::vector<int32_t> expected = greedy(make_prompt(i, 5 + i), i);
        EXPECT_EQ(answer.finish.usage.n_generated, answer.tokens.size());
        ASSERT_LE(answer.tokens.size(), expected.size());
        EXPECT_TRUE(std::equal(answer.tokens.begin(), answer.tokens.end(), expected.begin()));
        if (answer.finish.reason == FinishReason::kError) {
          EXPECT_THAT(answer.finish.error, HasSubstr("told to fail"));
        } else {
          EXPECT_EQ(answer.tokens, expected);
        }
      }
      *fails = -1;
      expect_greedy(run(make_request(make_prompt(50, 9), 7)), make_prompt(50, 9), 7);
    }
  }
  EXPECT_GE(engine->stats().failed_steps.get(), 20u);
}

TEST_F(AheadTest, ALostDeviceIsLostForTheStepThatFollowsToo) {
  start();
  model.fail_status = BP_DEVICE_LOST;
  model.fail_collect_at = 4;
  const auto sinks = submit_together(staggered(12));
  for (uint32_t i = 8; i <= 12; ++i) {
    EXPECT_EQ(sinks[i - 1]->wait()[0].finish.reason, FinishReason::kError);
  }
  while (engine->healthy()) std::this_thread::sleep_for(1ms);
}

// The step before is in flight then, and nobody may wait for it.
TEST_F(AheadTest, ADeviceMayBeLostWhenTheStepThatFollowsIsSubmitted) {
  for (int n = 0; n < 8; ++n) {
    start();
    model.fail_status = BP_DEVICE_LOST;
    model.fail_at = n;
    const auto sinks = submit_together(staggered(12));
    for (uint32_t i = 8; i <= 12; ++i) {
      EXPECT_EQ(sinks[i - 1]->wait()[0].finish.reason, FinishReason::kError) << n;
    }
    while (engine->healthy()) std::this_thread::sleep_for(1ms);
    engine.reset();
    EXPECT_EQ(model.violation(), "") << n;
  }
}

TEST_F(AheadTest, AnEngineEndsWithTwoStepsInFlight) {
  for (uint32_t i = 0; i < 10; ++i) {
    start();
    model.delay_us = 300;
    const auto sink = submit(make_request(make_prompt(i, 8), 200));
    sink->wait_for_tokens(2);
    engine.reset();
    EXPECT_EQ(sink->wait()[0].finish.reason, FinishReason::kCancelled);
  }
}

}  // namespace
}  // namespace bp::engine::testing
