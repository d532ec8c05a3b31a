#include "backends/cpu/plan/plan.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "backends/cpu/cpu_features.hpp"
#include "backends/cpu/plan/planner.hpp"
#include "sdk/conformance/support/tiny_llama.hpp"

namespace bp::cpu {
namespace {

class PlanTest : public testing::Test {
 protected:
  Plan plan_of(conformance::TinyLlama& llama, uint32_t max_tokens = 0) {
    const ProgramView view(llama.program());
    Result<Plan> plan = Planner(view, weights_, Prepare::kRepack, {}, max_tokens).run();
    EXPECT_TRUE(plan.ok()) << plan.status().message();
    return std::move(plan).value();
  }

  WeightStore weights_{Bf16Layout::kRows};
};

// Each stage costs a barrier.
TEST_F(PlanTest, ALlamaLayerTakesFiveStages) {
  conformance::TinyLlama llama(BP_DTYPE_Q8_0);
  const Plan plan = plan_of(llama);
  constexpr uint32_t embed_and_rope_table = 2;
  constexpr uint32_t head = 1;
  EXPECT_EQ(plan.stages.size(), embed_and_rope_table + 5 * conformance::TinyLlama::kLayers + head);
  ASSERT_EQ(plan.outputs.size(), 1u);
  EXPECT_TRUE(plan.outputs[0].is_direct);
  EXPECT_EQ(plan.outputs[0].writer, plan.stages.size() - 1);
}

// A cache for it, in bf16.
KvCache kv_of(conformance::TinyLlama& llama, const Kernels& kernels) {
  const ProgramView view(llama.program());
  return KvCache(view.kv_slots(), view.header().n_kv_groups, kDefaultBlockSize, KvType::kBF16,
                 KvType::kBF16, &kernels);
}

// The phases of a step that decodes n_seqs sequences, each of which ends with all workers waiting.
uint32_t phases_of_decode(const Plan& plan, const Kernels& kernels, KvCache kv, uint32_t n_seqs,
                          uint32_t depth = 0) {
  auto batch = make_growable<bp_batch>();
  std::vector<uint32_t> starts(n_seqs + 1);
  std::iota(starts.begin(), starts.end(), 0u);
  batch.n_tokens = batch.n_seqs = n_seqs;
  batch.query_start = starts.data();
  const std::vector<int32_t> positions(n_seqs, static_cast<int32_t>(depth));
  batch.positions = positions.data();
  const std::vector<uint32_t> lengths(n_seqs, depth + 1);
  batch.context_len = lengths.data();
  const std::span<const uint32_t> output(starts.data(), n_seqs);
  StepContext step;
  step.batch = &batch;
  step.kernels = &kernels;
  step.kv = &kv;
  step.outputs = {&output, 1};
  step.n_workers = 2;
  uint32_t n = 0;
  for (const auto& stage : plan.stages) {
    step.round = 0;
    for (uint32_t phase = 0; phase < Stage::kPhases; ++phase) {
      const PhaseItems items = stage->items(step, phase);
      n += items.n > 0 ? 1 : 0;
      if (items.repeats) ++step.round, phase -= 2;
    }
  }
  return n;
}

TEST_F(PlanTest, ALayerOfADecodeStepTakesFivePhases) {
  conformance::TinyLlama llama(BP_DTYPE_Q8_0);
  const Plan plan = plan_of(llama);
  for (const Isa isa : available_isas()) {
    const Kernels& kernels = kernels_of(isa);
    const auto phases = [&](uint32_t n_seqs, uint32_t depth = 0) {
      return phases_of_decode(plan, kernels, kv_of(llama, kernels), n_seqs, depth);
    };
    for (const uint32_t n_seqs : {1u, 5u, 16u}) EXPECT_EQ(phases(n_seqs), plan.stages.size());
    EXPECT_GT(phases(17), plan.stages.size());
    // What two workers have gathered of a sequence is folded afterwards.
    EXPECT_EQ(phases(1, 4000), plan.stages.size() + conformance::TinyLlama::kLayers);
    // By rounds, where there is no room for all that they gather.
    constexpr uint32_t kRounds = 3;
    EXPECT_EQ(phases(1, 3'000'000),
              plan.stages.size() + conformance::TinyLlama::kLayers * (2 * kRounds - 1));
  }
}

// Blocks that a step fills are packed afterwards, of heads and by kernels that have it.
TEST_F(PlanTest, FullBlocksTakeAPhaseOfTheirOwn) {
  conformance::TinyLlama llama(BP_DTYPE_Q8_0, 0, {}, {}, conformance::TinyLlama::kFf, 64);
  const Plan plan = plan_of(llama);
  for (const Isa isa : available_isas()) {
    const Kernels& kernels = kernels_of(isa);
    const uint32_t packing = kernels.pack_tile != nullptr ? conformance::TinyLlama::kLayers : 0;
    for (const auto& [depth, more] : {std::pair{62u, 0u}, {63u, packing}, {64u, 0u}}) {
      EXPECT_EQ(phases_of_decode(plan, kernels, kv_of(llama, kernels), 5, depth),
                plan.stages.size() + more)
          << isa_name(isa) << " " << depth;
    }
  }
}

TEST_F(PlanTest, BuffersInUseTogetherDoNotOverlap) {
  conformance::TinyLlama llama;
  Plan plan = plan_of(llama);
  const StageLimits limits{64, 16, &kernels_of(Isa::kScalar)};
  const size_t total = lay_out_buffers(plan, limits);
  const auto n_stages = static_cast<uint32_t>(plan.stages.size());
  const auto lives = [&](uint32_t buffer) {
    Range range{n_stages, 0};
    for (uint32_t s = 0; s < n_stages; ++s) {
      for (const auto& used : {plan.stages[s]->reads, plan.stages[s]->writes}) {
        if (std::ranges::find(used, buffer) == used.end()) continue;
        range = {std::min(range.begin, s), std::max(range.end, s)};
      }
    }
    return range;
  };
  size_t sum = 0;
  for (uint32_t a = 0; a < plan.buffers.size(); ++a) {
    const size_t begin = plan.buffers[a].offset;
    const size_t end = begin + plan.buffers[a].bytes(limits);
    EXPECT_LE(end, total);
    sum += end - begin;
    for (uint32_t b = 0; b < a; ++b) {
      const Range x = lives(a), y = lives(b);
      const bool together = x.begin <= y.end && y.begin <= x.end;
      const size_t other = plan.buffers[b].offset;
      const bool overlap = begin < other + plan.buffers[b].bytes(limits) && other < end;
      EXPECT_FALSE(together && overlap) << a << " and " << b;
    }
  }
  EXPECT_LT(total, sum) << "memory is used again";
}

TEST_F(PlanTest, LayersTakeNoMoreMemoryThanOneNeedsAtATime) {
  conformance::TinyLlama llama;
  Plan plan = plan_of(llama);
  const StageLimits limits{512, 512, &kernels_of(Isa::kScalar)};
  lay_out_buffers(plan, limits);
  std::vector<size_t> needed(plan.stages.size());
  for (const Buffer& buffer : plan.buffers) {
    const auto index = static_cast<uint32_t>(&buffer - plan.buffers.data());
    const auto uses = [&](const auto& stage) {
      return std::ranges::count(stage->reads, index) + std::ranges::count(stage->writes, index) > 0;
    };
    const auto first = std::ranges::find_if(plan.stages, uses);
    if (first == plan.stages.end()) continue;
    const auto last = std::find_if(plan.stages.rbegin(), plan.stages.rend(), uses).base();
    const auto end = buffer.is_output ? plan.stages.end() : last;
    for (auto stage = first; stage != end; ++stage) {
      needed[static_cast<size_t>(stage - plan.stages.begin())] += buffer.bytes(limits);
    }
  }
  StageLimits few = limits;
  few.max_output_rows = kFewOutputRows;
  size_t touched = 0;
  for (const ByteRange& range : written_ranges(plan, few)) touched += range.end - range.begin;
  EXPECT_LE(touched, *std::ranges::max_element(needed));
}

TEST_F(PlanTest, AWideIntermediateIsHeldForPassesOfRows) {
  constexpr uint32_t kTokens = 512, kWide = 16384;
  conformance::TinyLlama llama(BP_DTYPE_Q8_0, 0, {}, {}, kWide);
  Plan plan = plan_of(llama, kTokens);
  const StageLimits limits{kTokens, 16, &kernels_of(Isa::kScalar)};
  EXPECT_LT(lay_out_buffers(plan, limits), size_t{kTokens} * kWide * sizeof(float) / 2);
  Plan few = plan_of(llama, 64);
  EXPECT_LT(few.stages.size(), plan.stages.size());
  EXPECT_EQ(few.stages.size(), plan_of(llama).stages.size());
  // All of them read the same weights, the last of which stay until the last has.
  EXPECT_EQ(few.weights, plan.weights);
  for (size_t i = 0; i < plan.weights.size(); ++i) {
    const bool is_wide = plan.weights[i]->n_rows() == kWide || i % 7 == 6;
    EXPECT_EQ(plan.weight_last_stages[i] > plan.weight_stages[i] + 1, is_wide) << i;
  }
}

// However many tokens a step may have.
TEST_F(PlanTest, PassesHaveMoreRowsWhereTheyWouldBeTooMany) {
  constexpr uint32_t kWide = 65536;
  conformance::TinyLlama llama(BP_DTYPE_Q8_0, 0, {}, {}, kWide);
  const size_t n_stages = plan_of(llama).stages.size();
  const auto n_passes = [&](uint32_t max_tokens) {
    return 1 + (plan_of(llama, max_tokens).stages.size() - n_stages) /
                   (2 * conformance::TinyLlama::kLayers);
  };
  EXPECT_EQ(n_passes(4800), 100u);
  EXPECT_LE(n_passes(1 << 20), 128u);
}

TEST_F(PlanTest, PassesTakeEachRowOnce) {
  for (const uint32_t most : {RowCount::kUnit, 5 * RowCount::kUnit}) {
    for (uint32_t n = 0; n <= 600; ++n) {
      auto batch = make_growable<bp_batch>();
      batch.n_tokens = n;
      StepContext step;
      step.batch = &batch;
      uint32_t end = 0;
      for (uint32_t pass = 0; pass * most < 600; ++pass) {
        const Range rows = RowCount{BP_ROWS_TOKENS, 0, pass, most}.range(step);
        EXPECT_EQ(rows.begin, end) << n;
        EXPECT_LE(rows.end - rows.begin, most) << n;
        end = rows.end;
      }
      EXPECT_EQ(end, n);
    }
  }
}

TEST_F(PlanTest, ExecutablesShareWeights) {
  conformance::TinyLlama llama(BP_DTYPE_Q8_0);
  const Plan first = plan_of(llama);
  const Plan second = plan_of(llama);
  ASSERT_EQ(first.weights.size(), second.weights.size());
  for (size_t i = 0; i < first.weights.size(); ++i) EXPECT_EQ(first.weights[i], second.weights[i]);
  EXPECT_GT(first.weights_bytes(), 0u);
}

}  // namespace
}  // namespace bp::cpu
