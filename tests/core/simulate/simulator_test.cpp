#include "core/simulate/simulator.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "fixture.hpp"

namespace bp::testing {
namespace {

using simulate::Limits;
using simulate::Outcome;
using simulate::Trace;
using simulate::TraceRequest;
using ::testing::HasSubstr;

Outcome run(const Trace& trace, const Limits& limits, const simulate::CostModel& cost,
            const plugin::SchedulerHandle& scheduler) {
  auto outcome = simulate::simulate(trace, limits, cost, scheduler, nullptr);
  EXPECT_TRUE(outcome.ok()) << outcome.status().message();
  return outcome.ok() ? *std::move(outcome) : Outcome(trace);
}

TraceRequest request(uint64_t arrival_us, uint32_t n_prompt, uint32_t n_output) {
  TraceRequest r;
  r.arrival_us = arrival_us;
  r.n_prompt = n_prompt;
  r.n_output = n_output;
  return r;
}

TEST(SimulatorTest, CountsTheTimeOfEachStep) {
  const Trace trace = trace_of({request(0, 10, 3), request(50'000, 4, 1)});
  simulate::CostModel cost;
  cost.step = 1000;
  cost.prefill_token = 10;
  cost.prefill_context = 1;
  cost.decode_token = 7;
  cost.decode_context = 2;
  const Outcome o = run(trace, {}, cost, make_fcfs());
  // 10 prompt tokens attend to 1 + ... + 10; then one token to 11, and one to 12.
  const uint64_t first = 1000 + 100 + 55, second = first + 1007 + 22, third = second + 1007 + 24;
  EXPECT_EQ(o.requests[0].first_token_us, first);
  EXPECT_EQ(o.requests[0].finish_us, third);
  EXPECT_EQ(o.requests[1].first_token_us, 50'000u + 1000 + 40 + 10);
  EXPECT_EQ(o.requests[1].finish_us, o.requests[1].first_token_us);
  EXPECT_EQ(o.inter_token_us.count(), 2u);
  EXPECT_EQ(o.n_steps, 4u);
  EXPECT_EQ(o.n_tokens, 10u + 2 + 4);
  EXPECT_EQ(o.busy_us, third + 1050);
}

TEST(SimulatorTest, FindsSharedPrefixesOfOneTenant) {
  Trace trace = trace_of({request(0, 100, 2), request(1'000'000, 100, 2),
                          request(2'000'000, 100, 2), request(3'000'000, 40, 2)},
                         {"a", "b"});
  trace.prefixes = {{0, 2, 40}};
  trace.prefix_ids = {0, 1};
  for (auto& r : trace.requests) r.prefix = 0;
  trace.requests[2].tenant = 1;
  Limits limits;
  limits.block_size = 16;
  Outcome o = run(trace, limits, price_of_step(1000), make_fcfs());
  // The second finds the 5 full blocks of 80 tokens, the other tenant nothing, and the last one
  // the 2 full blocks that leave a token of its prompt of 40.
  EXPECT_EQ(o.n_cached, 80u + 32);
  EXPECT_EQ(o.n_queried, 340u);
  limits.prefix_cache = false;
  EXPECT_EQ(run(trace, limits, price_of_step(1000), make_fcfs()).n_cached, 0u);
}

Trace crowded_trace(uint32_t n) {
  std::vector<TraceRequest> requests;
  for (uint32_t i = 0; i < n; ++i)
    requests.push_back(request(i * 500, 20 + i % 60, 1 + i * 7 % 90));
  return trace_of(std::move(requests));
}

TEST(SimulatorTest, PreemptsWhereMemoryIsShortAndFinishesAll) {
  const Trace trace = crowded_trace(300);
  Limits limits;
  limits.n_blocks = 24;
  limits.block_size = 16;
  limits.max_queue = 0;
  const Outcome o = run(trace, limits, price_of_step(1000), make_fcfs());
  EXPECT_GT(o.n_preemptions, 0u);
  EXPECT_GT(o.n_recomputed, 0u);
  EXPECT_EQ(o.n_invalid, 0u);
  EXPECT_LE(o.most_used_blocks, 24u);
  uint64_t known = 0;
  for (size_t i = 0; i < trace.requests.size(); ++i) {
    EXPECT_GE(o.requests[i].first_token_us, trace.requests[i].arrival_us);
    EXPECT_GE(o.requests[i].finish_us, o.requests[i].first_token_us);
    known += trace.requests[i].n_prompt + trace.requests[i].n_output - 1;
  }
  // Every token but each last one is computed, some of them again.
  EXPECT_EQ(o.n_tokens, known - o.n_cached + o.n_recomputed);
}

TEST(SimulatorTest, RefusesWhatNeverFits) {
  Limits limits;
  limits.n_blocks = 10;
  limits.block_size = 16;
  const Trace trace = trace_of({request(0, 150, 11), request(0, 150, 10)});
  const Outcome o = run(trace, limits, price_of_step(1000), make_fcfs());
  EXPECT_EQ(o.n_refused, 1u);
  EXPECT_TRUE(o.requests[0].refused);
  EXPECT_GT(o.requests[1].finish_us, 0u);
}

TEST(SimulatorTest, ShowsTheSchedulerWhatTheEngineWould) {
  uint32_t most_waiting = 0;
  uint64_t last_step_us = 0, n_steps = 0;
  const auto inner = make_fcfs();
  const auto spy = make_scheduler([&](const bp_snapshot& s, bp_decision& d) {
    EXPECT_EQ(s.step, n_steps++);
    EXPECT_EQ(s.last_step_us, last_step_us);
    last_step_us = 1000;
    EXPECT_EQ(s.n_blocks, 25u);
    EXPECT_EQ(s.block_size, 16u);
    EXPECT_TRUE(std::is_sorted(s.id, s.id + s.n_seqs));
    uint32_t n_held = 0, n_waiting = 0;
    for (uint32_t i = 0; i < s.n_seqs; ++i) {
      const bool waits = s.state[i] == BP_SEQ_WAITING;
      n_held += waits ? 0 : s.n_held[i];
      n_waiting += waits && s.last_run_step[i] == UINT64_MAX ? 1 : 0;
      EXPECT_LE(s.arrival_us[i], s.now_us);
      EXPECT_LT(waits ? s.n_cached[i] : s.n_computed[i], s.n_tokens[i]);
      if (!waits) continue;
      EXPECT_EQ(s.n_computed[i], 0u);
      EXPECT_LE(s.n_held[i] * s.block_size, s.n_cached[i]);
    }
    EXPECT_EQ(s.free_blocks + n_held, 24u);
    most_waiting = std::max(most_waiting, n_waiting);
    ASSERT_TRUE(inner.schedule(s, d).ok());
  });
  Limits limits;
  limits.n_blocks = 24;
  limits.block_size = 16;
  limits.max_queue = 5;
  const Outcome o = run(crowded_trace(100), limits, price_of_step(1000), spy);
  EXPECT_EQ(most_waiting, 5u);
  EXPECT_EQ(o.n_steps, n_steps);
  EXPECT_GT(o.longest_line, 10u);
}

TEST(SimulatorTest, CountsInvalidDecisionsAndGoesOnAsTheEngineDoes) {
  const auto greedy = make_scheduler([](const bp_snapshot& s, bp_decision& d) {
    for (uint32_t i = 0; i < s.n_seqs; ++i) d.n_tokens[i] = s.n_tokens[i] + 1;
  });
  const Outcome o = run(crowded_trace(50), {}, price_of_step(1000), greedy);
  EXPECT_EQ(o.n_invalid, o.n_steps);
  EXPECT_THAT(o.first_invalid, HasSubstr("step 0: sequence 0: more tokens than it has"));
  for (const auto& r : o.requests) EXPECT_GT(r.finish_us, 0u);
}

TEST(SimulatorTest, EndsWhereNothingEverProgresses) {
  const auto fickle = make_scheduler([](const bp_snapshot& s, bp_decision& d) {
    const bool running = s.state[0] == BP_SEQ_RUNNING;
    (running ? d.preempt[0] : d.n_tokens[0]) = 1;
  });
  Limits limits;
  limits.n_blocks = 8;
  limits.prefix_cache = false;
  const Trace trace = trace_of({request(0, 100, 2)});
  const auto outcome = simulate::simulate(trace, limits, price_of_step(10), fickle, nullptr);
  ASSERT_FALSE(outcome.ok());
  EXPECT_THAT(outcome.status().message(), HasSubstr("makes no progress"));
}

TEST(SimulatorTest, GivesTheSameReportEveryTime) {
  const Trace trace = crowded_trace(200);
  simulate::Setting setting{"trace", "fcfs", {}, price_of_step(900)};
  setting.limits.n_blocks = 40;
  setting.limits.block_size = 16;
  const auto report = [&] {
    const Outcome o = run(trace, setting.limits, setting.cost, make_fcfs());
    return simulate::make_report(setting, trace, o).dump();
  };
  EXPECT_EQ(report(), report());
}

}  // namespace
}  // namespace bp::testing
