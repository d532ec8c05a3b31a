// Preempted sequences whose computed tokens wait in host memory: the same text, and nothing
// computed twice where there is room.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <random>
#include <thread>

#include "backplane/scheduler.hpp"
#include "core/engine/decision.hpp"
#include "fixture.hpp"

namespace bp::engine::testing {
namespace {

constexpr uint32_t kRequests = 10, kPrompt = 20, kAnswer = 40;
constexpr uint64_t kPlenty = 1 << 20;

// First come, first served; what it was told.
class WatchingScheduler final : public Scheduler {
 public:
  static inline std::atomic<uint64_t> longest_step_us;
  static inline std::atomic<uint32_t> least_step_tokens;

  static Result<std::unique_ptr<Scheduler>> create(const Host&, const Params&) {
    longest_step_us = 0;
    least_step_tokens = UINT32_MAX;
    return std::unique_ptr<Scheduler>(std::make_unique<WatchingScheduler>());
  }
  Status schedule(const bp_snapshot& s, bp_decision& d) override {
    longest_step_us = std::max(longest_step_us.load(), s.last_step_us);
    least_step_tokens = std::min(least_step_tokens.load(), s.max_step_tokens);
    decide_first_come_first_served(s, d);
    return {};
  }
};
constexpr bp_scheduler_factory kWatching = scheduler_factory<WatchingScheduler>();

class SwapTest : public EngineTest {
 protected:
  // Room for a third of what the requests need at once.
  static EngineOptions scarce(uint64_t swap_bytes) {
    EngineOptions options;
    options.n_blocks = 40;
    options.limits.swap_bytes = swap_bytes;
    return options;
  }
  void start_swapping(const EngineOptions& options) {
    model.transfers = true;
    start(options);
  }
  void run_all() {
    std::vector<Request> requests;
    for (uint32_t i = 0; i < kRequests; ++i) {
      requests.push_back(make_request(make_prompt(i, kPrompt), kAnswer));
    }
    const auto sinks = submit_together(std::move(requests));
    for (uint32_t i = 0; i < kRequests; ++i) {
      const Answer answer = sinks[i]->wait()[0];
      EXPECT_EQ(answer.tokens, greedy(make_prompt(i, kPrompt), kAnswer)) << answer.finish.error;
      n_needed_ += kPrompt + answer.tokens.size() - 1;
    }
    wait_until_idle();
    EXPECT_GT(stats().preemptions.get(), 0u);
  }
  [[nodiscard]] const Stats& stats() const { return engine->stats(); }
  // The gauge is set within a step of the last event.
  [[nodiscard]] bool room_is_free() const {
    for (int i = 0; i < 1000 && stats().swap_used_bytes.get() != 0; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return stats().swap_used_bytes.get() == 0;
  }

  uint64_t n_needed_ = 0;  // tokens that are computed where none is twice
};

TEST_F(SwapTest, NothingIsComputedTwice) {
  start_swapping(scarce(kPlenty));
  run_all();
  EXPECT_EQ(model.n_computed_tokens, n_needed_);
  EXPECT_GT(stats().swap_out_blocks.get(), 0u);
  EXPECT_GT(stats().swap_in_blocks.get(), 0u);
  EXPECT_LE(stats().swap_in_blocks.get(), stats().swap_out_blocks.get());
  EXPECT_GT(stats().swap_in_bytes.get(), stats().swap_in_blocks.get());
  EXPECT_EQ(stats().swap_refused.get() + stats().swap_failures.get(), 0u);
  EXPECT_TRUE(room_is_free());
}

TEST_F(SwapTest, EveryBlockComesBackWithoutAPrefixCache) {
  EngineOptions options = scarce(kPlenty);
  options.limits.prefix_cache = false;
  start_swapping(options);
  run_all();
  EXPECT_EQ(model.n_computed_tokens, n_needed_);
  EXPECT_EQ(stats().swap_in_blocks.get(), stats().swap_out_blocks.get());
  EXPECT_EQ(stats().swap_in_bytes.get(), stats().swap_out_bytes.get());
}

TEST_F(SwapTest, OffMeansOff) {
  start_swapping(scarce(0));
  run_all();
  EXPECT_EQ(stats().swap_out_blocks.get(), 0u);
  EXPECT_GT(model.n_computed_tokens, n_needed_);
}

TEST_F(SwapTest, ABackendThatMovesNoBlocksComputesAgain) {
  start(scarce(kPlenty));
  run_all();
  EXPECT_EQ(stats().swap_out_blocks.get() + stats().swap_refused.get(), 0u);
}

// One sequence at a time at most, of 60 tokens and 8 bytes each.
TEST_F(SwapTest, WhatFindsNoRoomIsComputedAgain) {
  start_swapping(scarce(600));
  run_all();
  EXPECT_GT(stats().swap_refused.get(), 0u);
  EXPECT_GT(stats().swap_in_blocks.get(), 0u);
  EXPECT_TRUE(room_is_free());
}

TEST_F(SwapTest, FailedTransfersAreComputedAgain) {
  start_swapping(scarce(kPlenty));
  model.fail_export_at = 0;
  model.fail_import_at = 1;
  run_all();
  EXPECT_EQ(stats().swap_failures.get(), 2u);
  EXPECT_GT(model.n_computed_tokens, n_needed_);
}

// Nothing is asked of it any more, which the fake backend watches.
TEST_F(SwapTest, ADeviceMayBeLostInATransfer) {
  for (auto* fails : {&model.fail_export_at, &model.fail_import_at}) {
    start_swapping(scarce(kPlenty));
    model.fail_status = BP_DEVICE_LOST;
    *fails = 0;
    std::vector<Request> requests;
    for (uint32_t i = 0; i < kRequests; ++i) {
      requests.push_back(make_request(make_prompt(i, kPrompt), kAnswer));
    }
    for (const auto& sink : submit_together(std::move(requests))) sink->wait();
    while (engine->healthy()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    engine.reset();
    EXPECT_EQ(model.violation(), "");
  }
}

// Decodes of two sequences are enough for the budget to learn from.
TEST_F(SwapTest, SlowCopiesAreNoneOfAStepsTime) {
  constexpr uint64_t kCopyUs = 200'000;
  EngineOptions options = scarce(kPlenty);
  options.scheduler = &kWatching;
  options.limits.max_step_tokens = 4;
  options.limits.max_step_us = kCopyUs;
  start_swapping(options);
  model.transfer_delay_us = kCopyUs;
  std::vector<Request> requests;
  for (uint32_t i = 0; i < 3; ++i) requests.push_back(make_request(make_prompt(i, 20), 60));
  for (const auto& sink : submit_together(std::move(requests))) sink->wait();
  EXPECT_GT(stats().swap_in_blocks.get(), 0u);
  EXPECT_LT(WatchingScheduler::longest_step_us, kCopyUs);
  EXPECT_EQ(WatchingScheduler::least_step_tokens, 4u);
}

TEST_F(SwapTest, StatesComeBackToo) {
  model.has_state = true;
  EngineOptions options = scarce(kPlenty);
  options.n_state_entries = 17;
  start_swapping(options);
  run_all();
  EXPECT_EQ(model.n_computed_tokens, n_needed_);
  EXPECT_EQ(stats().swap_in_blocks.get(), stats().swap_out_blocks.get());
}

TEST_F(SwapTest, AFailedImportOfAStateBeginsAnew) {
  model.has_state = true;
  EngineOptions options = scarce(kPlenty);
  options.n_state_entries = 17;
  start_swapping(options);
  model.fail_import_at = 1;  // that of the state, after its blocks
  run_all();
  EXPECT_EQ(stats().swap_failures.get(), 1u);
}

TEST_F(SwapTest, ChoicesWithoutAnEntryKeepTheirState) {
  model.has_state = true;
  EngineOptions options = scarce(kPlenty);
  options.n_blocks = 200;
  options.n_state_entries = 4;
  options.limits.max_sequences = 3;
  start_swapping(options);
  Request request = make_request(make_prompt(5, 21), 12);
  request.n = 5;
  for (const Answer& answer : submit(request)->wait(5)) {
    EXPECT_EQ(answer.tokens, greedy(request.prompt, 12)) << answer.finish.error;
  }
  EXPECT_GT(stats().preemptions.get(), 0u);
  EXPECT_EQ(model.n_computed_tokens, 21u + 5 * 11);
}

TEST_F(SwapTest, PromptLogprobsSurvive) {
  EngineOptions options = scarce(kPlenty);
  options.limits.max_step_tokens = 16;
  start_swapping(options);
  std::vector<Request> requests;
  for (uint32_t i = 0; i < kRequests; ++i) {
    requests.push_back(make_request(make_prompt(i, 40), 20));
    requests.back().prompt_logprobs = true;
  }
  const auto sinks = submit_together(std::move(requests));
  for (uint32_t i = 0; i < kRequests; ++i) {
    EXPECT_EQ(sinks[i]->wait()[0].tokens, greedy(make_prompt(i, 40), 20));
    EXPECT_EQ(sinks[i]->prompt_logprobs().size(), 39u);
  }
  EXPECT_GT(stats().swap_in_blocks.get(), 0u);
}

TEST_F(SwapTest, CancelledSequencesGiveTheirRoomBack) {
  start_swapping(scarce(kPlenty));
  model.delay_us = 300;
  std::mt19937 random(9);
  for (int round = 0; round < 4; ++round) {
    std::vector<std::shared_ptr<CollectingSink>> sinks;
    std::vector<RequestId> ids(kRequests);
    for (uint32_t i = 0; i < kRequests; ++i) {
      sinks.push_back(submit(make_request(make_prompt(i, kPrompt), 200), &ids[i]));
    }
    for (int i = 0; i < 3000 && stats().swap_used_bytes.get() == 0; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_GT(stats().swap_used_bytes.get(), 0u);
    std::ranges::shuffle(ids, random);
    for (const RequestId id : ids) engine->cancel(id);
    for (const auto& sink : sinks) sink->wait();
    wait_until_idle();
    EXPECT_TRUE(room_is_free());
  }
}

}  // namespace
}  // namespace bp::engine::testing
