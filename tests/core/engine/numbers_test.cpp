// Random numbers, rows of logits, histograms and the step budget.

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "core/engine/random.hpp"
#include "core/engine/row_math.hpp"
#include "core/engine/stats.hpp"
#include "core/engine/step_budget.hpp"

namespace bp::engine {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(RandomTest, PhiloxMatchesItsAuthorsVectors) {
  using Counter = std::array<uint32_t, 4>;
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}),
            (Counter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (Counter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Counter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(RandomTest, EveryPartOfTheKeyCounts) {
  const double base = uniform({1, 2, 3}, 4, 5);
  EXPECT_EQ(base, uniform({1, 2, 3}, 4, 5));
  EXPECT_NE(base, uniform({1ULL << 40, 2, 3}, 4, 5));
  EXPECT_NE(base, uniform({1, 1, 3}, 4, 5));
  EXPECT_NE(base, uniform({1, 2, 4}, 4, 5));
  EXPECT_NE(base, uniform({1, 2, 3}, 5, 5));
  EXPECT_NE(base, uniform({1, 2, 3}, 4, 6));
}

TEST(RandomTest, UniformIsUniform) {
  constexpr int kBins = 20, kDraws = 20000;
  std::array<int, kBins> counts{};
  for (uint32_t i = 0; i < kDraws; ++i) {
    const double u = uniform({99, 0, i}, 0, 0);
    ASSERT_GE(u, 0.0);
    ASSERT_LT(u, 1.0);
    ++counts[static_cast<size_t>(u * kBins)];
  }
  double chi2 = 0;
  for (const int count : counts) chi2 += std::pow(count - kDraws / kBins, 2) / (kDraws / kBins);
  EXPECT_LT(chi2, 43.8);  // 19 degrees of freedom, p = 0.001
}

std::vector<float> random_row(size_t n, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 3);
  std::vector<float> row(n);
  for (float& x : row) x = normal(random);
  return row;
}

TEST(RowMathTest, ArgmaxPrefersTheLowestId) {
  std::vector<float> row = random_row(1000, 2);
  row[300] = row[700] = 99;
  EXPECT_EQ(argmax(row), 300);
  std::ranges::fill(row, -kInfinity);
  EXPECT_EQ(argmax(row), -1);
}

TEST(RowMathTest, ArgmaxFindsEveryPlace) {
  for (const float greatest : {99.0f, kInfinity}) {
    for (const size_t at : {0, 63, 64, 700, 959, 960, 999}) {
      std::vector<float> row = random_row(1000, 2);
      row[at] = greatest;
      EXPECT_EQ(argmax(row), static_cast<int32_t>(at));
    }
  }
}

TEST(RowMathTest, TopIsSortedAndComplete) {
  std::vector<float> row = random_row(5000, 3);
  for (size_t i = 0; i < row.size(); i += 7) row[i] = 4;  // ties
  for (const uint32_t n : {0u, 1u, 20u, 300u, 5000u}) {
    const auto top = logprobs_of(row, 17, n).top;
    ASSERT_EQ(top.size(), n);
    std::vector<int32_t> ids(row.size());
    for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(i);
    std::ranges::stable_sort(ids, [&](int32_t a, int32_t b) {
      return row[static_cast<size_t>(a)] > row[static_cast<size_t>(b)];
    });
    for (uint32_t i = 0; i < n; ++i) EXPECT_EQ(top[i].token, ids[i]);
  }
}

std::vector<bp_candidate> candidates_of(const std::vector<float>& row) {
  std::vector<bp_candidate> candidates;
  for (const float logit : row)
    candidates.push_back({static_cast<int32_t>(candidates.size()), logit});
  return candidates;
}

// Both draws follow softmax and agree with each other number by number.
TEST(RowMathTest, DrawsFollowSoftmax) {
  const std::vector<float> row = {0.5f, -kInfinity, 2.0f, 1.0f, -1.0f};
  const std::vector<bp_candidate> candidates = candidates_of(row);
  double total = 0;
  for (const float x : row) total += std::exp(static_cast<double>(x));
  std::array<int, 5> counts{};
  constexpr int kDraws = 20000;
  for (uint32_t i = 0; i < kDraws; ++i) {
    const double u = uniform({5, 0, i}, 0, 0);
    const int32_t id = draw_dense(row, 2, 1, u);
    ASSERT_EQ(id, draw_sparse(candidates, u));
    ++counts[static_cast<size_t>(id)];
  }
  EXPECT_EQ(counts[1], 0);
  double chi2 = 0;
  for (const size_t id : {0u, 2u, 3u, 4u}) {
    const double expected = kDraws * std::exp(static_cast<double>(row[id])) / total;
    chi2 += std::pow(counts[id] - expected, 2) / expected;
  }
  EXPECT_LT(chi2, 16.3);  // 3 degrees of freedom, p = 0.001
}

TEST(RowMathTest, DrawsReachEveryBlockAndTheEnd) {
  for (const size_t end : {5000u, 9000u}) {  // no blocks follow, or some without weights
    std::vector<float> row(end, -kInfinity);
    row[10] = row[2500] = row[4999] = 0;
    for (const auto& [u, id] :
         {std::pair{0.0, 10}, {0.5, 2500}, {0.9, 4999}, {1 - 0x1p-53, 4999}}) {
      EXPECT_EQ(draw_dense(row, 0, 1, u), id);
      EXPECT_EQ(draw_sparse(candidates_of(row), u), id);
    }
  }
  const std::vector<float> forbidden(5000, -kInfinity);
  EXPECT_EQ(draw_dense(forbidden, -kInfinity, 1, 0.5), -1);
  EXPECT_EQ(draw_sparse(candidates_of(forbidden), 0.5), -1);
}

TEST(RowMathTest, DenseDrawScalesDistancesFromTheGreatest) {
  const std::vector<float> row = {0.5f, -kInfinity, 2.0f, 1.0f, -1.0f};
  for (const float scale : {0.1f, 0.75f, 3.0f, std::numeric_limits<float>::max()}) {
    std::vector<float> scaled = row;
    for (float& x : scaled) x = (x - 2) * scale;
    for (uint32_t i = 0; i < 200; ++i) {
      const double u = uniform({5, 0, i}, 0, 0);
      ASSERT_EQ(draw_dense(row, 2, scale, u), draw_dense(scaled, 0, 1, u)) << scale << " " << u;
    }
  }
}

TEST(HistogramTest, CountsByUpperBound) {
  static constexpr std::array kBounds = {1.0, 2.0};
  Histogram histogram(kBounds);
  for (const double value : {0.5, 1.0, 1.5, 7.0}) histogram.observe(value);
  const auto reading = histogram.read();
  EXPECT_EQ(reading.counts, (std::vector<uint64_t>{2, 1, 1}));
  EXPECT_DOUBLE_EQ(reading.sum, 10.0);
}

TEST(StepBudgetTest, KeepsStepsWithinTheLimit) {
  StepBudget budget(500'000, 4096);
  EXPECT_EQ(budget.tokens(0), 64u);
  for (int i = 0; i < 20; ++i) budget.observe(budget.tokens(0), budget.tokens(0) * 1000);
  EXPECT_EQ(budget.tokens(0), 500u);
  for (int i = 0; i < 50; ++i) budget.observe(budget.tokens(0), budget.tokens(0) * 10);
  EXPECT_EQ(budget.tokens(0), 4096u);
  budget.observe(4096, 4096 * 100'000ULL);
  EXPECT_EQ(budget.tokens(0), 5u);
  EXPECT_EQ(budget.tokens(9), 12u);  // and prompts go on
}

// A process that was stopped for a while, or a first step that read the file from a disk.
TEST(StepBudgetTest, RecoversFromOneSlowStepHoweverFewTokensStepsHaveThen) {
  for (const uint64_t slow_us : {6'000'000, 60'000'000}) {
    StepBudget budget(500'000, 512);
    budget.observe(64, 64 * 1000);
    budget.observe(512, slow_us);
    EXPECT_LE(budget.tokens(0), 42u);
    for (int i = 0; i < 200; ++i) budget.observe(std::min(budget.tokens(1), 5u), 20'000);
    EXPECT_GT(budget.tokens(0), 32u) << slow_us;
    for (int i = 0; i < 40; ++i) {
      const uint32_t n = budget.tokens(1);
      budget.observe(n, 20'000 + n * 500);
    }
    EXPECT_EQ(budget.tokens(0), 512u) << slow_us;
  }
}

TEST(StepBudgetTest, DecodesSayNothingAboutPrompts) {
  StepBudget budget(500'000, 512);
  budget.observe(64, 64'000);
  budget.observe(1, 200'000);
  EXPECT_EQ(budget.tokens(0), 500u);
}

// As where weights come from the disk: smaller steps would only be more of them.
TEST(StepBudgetTest, LeavesRoomBesideWhatAStepCostsAtLeast) {
  const auto us = [](uint32_t n, uint64_t bare, uint64_t each) { return bare + n * each; };
  for (const uint64_t bare : {470'000, 1'050'000, 3'000'000}) {
    StepBudget prompts(500'000, 512), mixed(500'000, 512);
    for (int i = 0; i < 60; ++i) {
      const uint32_t n = prompts.tokens(0);
      prompts.observe(n, us(n, bare, 11'300));
      mixed.observe(mixed.tokens(0), us(mixed.tokens(0), bare, 11'300));
      mixed.observe(1, us(1, bare, 11'300));
      if (i < 20) continue;
      EXPECT_GE(prompts.tokens(0), 16u) << bare;
      EXPECT_GE(mixed.tokens(1), 32u) << bare;
      EXPECT_LE(us(mixed.tokens(1), bare, 11'300), 3 * bare);
    }
  }
  StepBudget slow(500'000, 512);
  for (int i = 0; i < 60; ++i) {
    slow.observe(slow.tokens(0), us(slow.tokens(0), 0, 100'000));
    slow.observe(1, us(1, 0, 100'000));
  }
  EXPECT_GE(slow.tokens(0), 3u);
  EXPECT_LE(slow.tokens(0), 6u);
}

}  // namespace
}  // namespace bp::engine
