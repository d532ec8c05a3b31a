// Two steps in flight on the emulated device, which does its work as late as somebody waits for it:
// the host memory of each step is its own, and a step that cannot be enqueued whole leaves the
// executable usable. What ids of -1-r stand for is backplane-conform's.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <deque>
#include <memory>

#include "sdk/conformance/support/device_sampling.hpp"
#include "sdk/conformance/support/steps_in_flight.hpp"
#include "tests/backends/cuda/failing_device.hpp"
#include "tests/backends/cuda/small_session.hpp"

namespace bp::cuda {
namespace {

using namespace conformance;

using Ids = std::vector<int32_t>;

constexpr uint32_t kCandidates = 3, kMostSequences = 6;

// The tokens of each sequence, of which the last row is chosen from and given.
struct SampledStep {
  // first[s] tokens of sequence s are cached.
  SampledStep(const std::vector<Ids>& tokens, const std::array<int32_t, kMostSequences>& first)
      : candidates(tokens.size() * kCandidates, bp_candidate{-5, -7.0f}) {
    std::vector<uint32_t> rows;
    std::vector<bp_row_request> requests;
    for (uint32_t s = 0; s < tokens.size(); ++s) {
      batch.add_sequence(tokens[s], first[s], {static_cast<int32_t>(1 + s)});
      rows.push_back(batch.n_tokens() - 1);
      bp_row_request request = s % 2 == 0 ? best_request() : draw_request(0, -9, 0.7f, 0.6);
      request.flags = BP_ROW_LOGITS;
      request.n_candidates = kCandidates;
      request.candidates = candidates.data() + s * kCandidates;
      requests.push_back(request);
    }
    batch.add_sampled_output(0, rows, kVocab, requests, -7.0f);
  }

  void expect_equal(const SampledStep& other) const {
    EXPECT_EQ(batch.status(), other.batch.status());
    EXPECT_EQ(batch.output(0), other.batch.output(0));
    for (size_t r = 0; r < batch.results(0).size(); ++r) {
      EXPECT_EQ(batch.results(0)[r].token, other.batch.results(0)[r].token) << r;
      EXPECT_EQ(batch.results(0)[r].log_sum, other.batch.results(0)[r].log_sum) << r;
    }
    for (size_t i = 0; i < candidates.size(); ++i) {
      EXPECT_EQ(candidates[i].id, other.candidates[i].id) << i;
      EXPECT_EQ(candidates[i].logit, other.candidates[i].logit) << i;
    }
  }

  BatchBuilder batch;
  std::vector<bp_candidate> candidates;
};

// Steps of many sequences and few, in graphs and outside, by ids of -1-r and by explicit ones.
std::deque<SampledStep> chain(BackendSession& session, uint32_t depth) {
  const std::vector<std::vector<Ids>> steps = {
      {{1, 2, 3}, {4, 5, 6}, {7, 8}, {10, 11, 12}, {13, 14, 15, 19}, {16, 17, 18}},
      {{-1}, {-2}, {-3}, {-4}, {-5}, {-6}},
      {{-6}},
      {{-1}, {20}, {21}, {22}},
      {{-2, 23}, {-4, 24}, {25, 26}},
  };
  std::array<int32_t, kMostSequences> n_cached{};
  StepsInFlight flight(session, depth);
  std::deque<SampledStep> done;
  for (const auto& tokens : steps) {
    done.emplace_back(tokens, n_cached);
    EXPECT_EQ(flight.submit(done.back().batch, 1), BP_OK) << done.size();
    for (size_t s = 0; s < tokens.size(); ++s) {
      n_cached[s] += static_cast<int32_t>(tokens[s].size());
    }
  }
  flight.collect_all();
  return done;
}

TEST(CudaInFlight, TwoStepsGiveWhatOneAtATimeGives) {
  TinyLlama llama;
  Configured plain(llama, "graphs", false);
  const std::deque<SampledStep> expected = chain(*plain, 1);
  EXPECT_EQ(plain->memory().max_in_flight, 2u);
  for (const bool uses_graphs : {false, true}) {
    for (const uint32_t depth : {1u, 2u}) {
      SCOPED_TRACE(testing::Message() << "graphs " << uses_graphs << " depth " << depth);
      Configured session(llama, "graphs", uses_graphs);
      const std::deque<SampledStep> found = chain(*session, depth);
      for (size_t i = 0; i < expected.size(); ++i) {
        EXPECT_EQ(found[i].batch.broken_rule(), "") << i;
        EXPECT_EQ(found[i].batch.status(), Ids(found[i].batch.status().size(), BP_SEQ_OK)) << i;
        found[i].expect_equal(expected[i]);
      }
    }
  }
}

// Where the embedding has fewer ids than a row has columns, a token beyond it fails the sequence.
TEST(CudaInFlight, TokensBeyondTheTableFailTheirSequence) {
  constexpr uint32_t kIds = 4, kColumns = 6;
  ProgramBuilder program;
  std::vector<float> table(kIds * kColumns, 0.0f);
  table[1 * kColumns + 5] = table[2 * kColumns + 3] = 1;  // 1 gives 5, 2 gives 3, others 0
  program.add_output(program.add_table_rows(kColumns, table));
  BackendSession session(kFactory);
  session.compile(program.build(), small_options(), 4);
  std::deque<BatchBuilder> steps(2);
  for (const Ids& ids : {Ids{1, 2}, Ids{-1, -2}}) {
    BatchBuilder& batch = steps[ids[0] < 0 ? 1 : 0];
    for (const int32_t id : ids) batch.add_sequence({id}, 0);
    batch.add_sampled_output(0, {0, 1}, kColumns, {best_request(), best_request()});
  }
  StepsInFlight flight(session, 2);
  for (BatchBuilder& step : steps) ASSERT_EQ(flight.submit(step, 0), BP_OK);
  flight.collect_all();
  EXPECT_EQ(steps[0].results(0)[0].token, 5);
  EXPECT_EQ(steps[1].status(), (Ids{BP_SEQ_FAILED, BP_SEQ_OK}));
  EXPECT_EQ(steps[1].results(0)[0].token, BatchBuilder::kUnwrittenResult.token);
  EXPECT_EQ(steps[1].results(0)[1].token, 0);
}

// ---- waiting
// -------------------------------------------------------------------------------------

struct AskedEvent : Event {
  explicit AskedEvent(int n_until_done) : n_left(n_until_done) {}
  Status synchronize() override {
    ++n_waits;
    return {};
  }
  Result<bool> is_done() override {
    if (fails) return internal_error("the work failed");
    return --n_left < 0;
  }
  int n_left, n_waits = 0;
  bool fails = false;
};

TEST(WaitForAStep, AsksBeforeItSleeps) {
  AskedEvent soon(3);
  EXPECT_TRUE(wait_for(soon, std::chrono::hours(1)).ok());
  EXPECT_EQ(soon.n_waits, 0);
  AskedEvent late(1 << 30);
  EXPECT_TRUE(wait_for(late, std::chrono::microseconds(200)).ok());
  EXPECT_EQ(late.n_waits, 1);
  AskedEvent failed(1);
  failed.fails = true;
  EXPECT_EQ(wait_for(failed, kPolling).message(), "the work failed");
}

// ---- steps that cannot be enqueued --------------------------------------------------------------

class HalfEnqueued : public testing::TestWithParam<bool> {
 protected:
  HalfEnqueued() : backend_(Host(&host_), device_, settings()) {
    executable_ = std::move(backend_.compile(llama_.program(), small_options())).value();
    EXPECT_TRUE(executable_->kv_allocate(std::array{kBlocks}).ok());
    EXPECT_TRUE(executable_->warm_up(Progress(nullptr)).ok());
  }
  static Settings settings() {
    Settings settings;
    settings.uses_graphs = GetParam();
    return settings;
  }
  Status submit(SampledStep& step, uint64_t& ticket) {
    return executable_->submit(step.batch.build(), ticket);
  }
  void run(SampledStep& step) {
    uint64_t ticket = 0;
    ASSERT_TRUE(submit(step, ticket).ok());
    ASSERT_TRUE(executable_->collect(ticket).ok());
  }

  TinyLlama llama_;
  bp_host host_ = make_growable<bp_host>();
  std::shared_ptr<FailingDevice> device_ = std::make_shared<FailingDevice>();
  CudaBackend backend_;
  std::unique_ptr<Executable> executable_;
};
INSTANTIATE_TEST_SUITE_P(Graphs, HalfEnqueued, testing::Bool());

TEST_P(HalfEnqueued, LeavesTheExecutableUsable) {
  const std::vector<Ids> prompts = {{1, 2, 3}, {4, 5, 6}};
  SampledStep prompt(prompts, {});
  run(prompt);
  const auto& chosen = prompt.batch.results(0);
  const std::vector<Ids> by_rows = {{-1}, {-2}}, by_ids = {{chosen[0].token}, {chosen[1].token}};
  SampledStep decode(by_ids, {3, 3});
  run(decode);

  int n_calls = 0;
  for (;; ++n_calls) {
    SCOPED_TRACE(n_calls);
    SampledStep before(prompts, {}), broken(by_rows, {3, 3}), after(by_ids, {3, 3}),
        unknown(by_rows, {3, 3});
    uint64_t first = 0, second = 0;
    ASSERT_TRUE(submit(before, first).ok());
    device_->faults.n_left = n_calls;
    const Status status = submit(broken, second);
    device_->faults.n_left = Faults::kNever;
    if (status.ok()) break;
    EXPECT_EQ(status.code(), Code::kInternal);
    EXPECT_EQ(submit(unknown, second).code(), Code::kInvalidArgument);
    ASSERT_TRUE(submit(after, second).ok());
    ASSERT_TRUE(executable_->collect(first).ok());
    ASSERT_TRUE(executable_->collect(second).ok());
    before.expect_equal(prompt);
    after.expect_equal(decode);
    EXPECT_FALSE(device_->faults.is_changed);
  }
  EXPECT_GT(n_calls, GetParam() ? 5 : 20);
}

}  // namespace
}  // namespace bp::cuda
