// Truncating stages keep exactly what a plain oracle keeps, which sorts everything.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <span>

#include "stage_runner.hpp"

namespace bp::samplers::testing {
namespace {

using Candidates = std::vector<bp_candidate>;

double weight(const Candidates& best_first, size_t i) {
  return std::exp(static_cast<double>(best_first[i].logit) -
                  static_cast<double>(best_first[0].logit));
}

double total_weight(const Candidates& best_first) {
  double total = 0;
  for (size_t i = 0; i < best_first.size(); ++i) total += weight(best_first, i);
  return total;
}

Candidates top_k_oracle(Candidates c, double k) {
  c = sorted(std::move(c));
  c.resize(std::min(c.size(), static_cast<size_t>(k)));
  return c;
}

Candidates top_p_oracle(Candidates c, double p) {
  c = sorted(std::move(c));
  const double total = total_weight(c);
  double sum = 0;
  size_t n = 0;
  while (n < c.size() && (n == 0 || sum < p * total)) sum += weight(c, n++);
  c.resize(n);
  return c;
}

Candidates min_p_oracle(Candidates c, double p) {
  c = sorted(std::move(c));
  size_t n = 0;
  while (n < c.size() && weight(c, n) >= p) ++n;
  c.resize(n);
  return c;
}

Candidates typical_p_oracle(Candidates c, double p) {
  c = sorted(std::move(c));
  const double total = total_weight(c);
  double entropy = 0;
  std::vector<std::pair<double, size_t>> surprises;
  for (size_t i = 0; i < c.size(); ++i) {
    const double q = weight(c, i) / total;
    entropy -= q > 0 ? q * std::log(q) : 0;
  }
  for (size_t i = 0; i < c.size(); ++i) {
    surprises.emplace_back(std::abs(-std::log(weight(c, i) / total) - entropy), i);
  }
  std::ranges::sort(surprises);
  Candidates kept;
  double sum = 0;
  for (const auto& [distance, i] : surprises) {
    if (!kept.empty() && sum >= p) break;
    kept.push_back(c[i]);
    sum += weight(c, i) / total;
  }
  return kept;
}

struct Case {
  const char* stage;
  Candidates (*oracle)(Candidates, double);
  std::vector<double> values;
};

class TruncationTest : public ::testing::TestWithParam<Case> {
 protected:
  [[nodiscard]] static plugin::ParamMap fields(double value) {
    const std::string name = GetParam().stage;
    if (name == "top_k") return {{name, static_cast<int64_t>(value)}};
    return {{name, value}};
  }
  // Sums of floats may fall on either side of a bound: then one candidate more or less is right.
  static void expect_same(const Candidates& found, const Candidates& expected,
                          const std::string& what) {
    const auto a = ids(sorted(found)), b = ids(sorted(expected));
    if (a == b) return;
    std::vector<int32_t> different;
    auto x = a, y = b;
    std::ranges::sort(x);
    std::ranges::sort(y);
    std::ranges::set_symmetric_difference(x, y, std::back_inserter(different));
    EXPECT_LE(different.size(), 1u) << what;
  }
};

TEST_P(TruncationTest, KeepsWhatTheOracleKeeps) {
  for (const double value : GetParam().values) {
    for (uint32_t seed = 0; seed < 15; ++seed) {
      const uint32_t n = seed < 6 ? 50 : seed < 12 ? 3000 : 20000;
      const auto logits = random_logits(n, seed, 0.5f + static_cast<float>(seed % 6));
      const auto stage = make_stage(GetParam().stage, fields(value), n);
      ASSERT_TRUE(stage.has_value());
      const auto all = to_candidates(logits);
      const auto expected = GetParam().oracle(all, value);
      const std::string what = std::to_string(value) + " seed " + std::to_string(seed);
      expect_same(run_dense(*stage, logits), expected, "dense " + what);
      auto shuffled = all;
      std::mt19937 random(seed);
      std::ranges::shuffle(shuffled, random);
      expect_same(run_sparse(*stage, shuffled, n), expected, "sparse " + what);
    }
  }
}

TEST_P(TruncationTest, KeepsAtLeastOneAndBreaksTiesByAscendingId) {
  const double least = GetParam().stage == std::string("min_p")   ? 1.0
                       : GetParam().stage == std::string("top_k") ? 1.0
                                                                  : 0.0;
  const auto stage = make_stage(GetParam().stage, fields(least), 100);
  std::vector<float> logits(100, 1.0f);
  const auto dense = run_dense(*stage, logits);
  ASSERT_FALSE(dense.empty());
  EXPECT_EQ(dense[0].id, 0);
  auto reversed = to_candidates(logits);
  std::ranges::reverse(reversed);
  const auto sparse = run_sparse(*stage, reversed, 100);
  EXPECT_EQ(ids(sorted(sparse)), ids(sorted(dense)));
}

INSTANTIATE_TEST_SUITE_P(
    Stages, TruncationTest,
    ::testing::Values(Case{"top_k", top_k_oracle, {1, 2, 5, 40, 49}},
                      Case{"top_p", top_p_oracle, {0.0, 0.01, 0.5, 0.9, 0.99, 0.9999}},
                      Case{"min_p", min_p_oracle, {0.0001, 0.05, 0.5, 1.0}},
                      Case{"typical_p", typical_p_oracle, {0.0, 0.2, 0.7, 0.95}}),
    [](const auto& param) { return param.param.stage; });

// As models mostly are: few candidates far above many, which have the mass or just miss it.
TEST(TopPTest, KeepsWhatTheOracleKeepsOfPeakedRows) {
  for (uint32_t seed = 0; seed < 40; ++seed) {
    auto logits = random_logits(5000, seed, 1.0f);
    const float above = 6 + 0.15f * static_cast<float>(seed);
    std::mt19937 random(seed);
    for (int i = 0; i < 12; ++i) logits[random() % 5000] = above + 0.2f * static_cast<float>(i);
    for (const double p : {0.0, 0.3, 0.9, 0.95, 0.999}) {
      const auto stage = make_stage("top_p", {{"top_p", p}}, 5000);
      ASSERT_TRUE(stage.has_value());
      const auto expected = top_p_oracle(to_candidates(logits), p);
      EXPECT_EQ(ids(sorted(run_dense(*stage, logits))), ids(expected)) << seed << " " << p;
    }
  }
}

// Where the next token is open: hundreds and thousands of candidates share the mass.
TEST(TopPTest, KeepsTheBestThatReachTheMassOfOpenRows) {
  constexpr size_t kVocab = 30000;
  constexpr double kRest = 1e-4;  // of the row's weight, which may be estimated
  for (uint32_t seed = 0; seed < 24; ++seed) {
    const auto logits = random_logits(kVocab, seed, 3.0f + 0.1f * static_cast<float>(seed));
    const auto best_first = sorted(to_candidates(logits));
    for (const double p : {0.5, 0.9, 0.95, 0.99}) {
      const auto stage = make_stage("top_p", {{"top_p", p}}, kVocab);
      ASSERT_TRUE(stage.has_value());
      const auto kept = sorted(run_dense(*stage, logits));
      ASSERT_LE(kept.size(), best_first.size());
      const auto best = std::span(best_first).first(kept.size());
      ASSERT_EQ(ids(kept), ids({best.begin(), best.end()})) << seed << " " << p;
      const double wanted = p * total_weight(best_first), has = total_weight(kept);
      EXPECT_GE(has, wanted * (1 - kRest)) << seed << " " << p;
      EXPECT_LT(has - weight(kept, kept.size() - 1), wanted * (1 + kRest)) << seed << " " << p;
    }
  }
}

// In no order, as typical_p leaves them.
TEST(TopPTest, KeepsWhatTheOracleKeepsOfManyCandidates) {
  for (uint32_t seed = 0; seed < 10; ++seed) {
    const auto all = to_candidates(random_logits(3000, seed, 2.0f));
    for (const double p : {0.0, 0.3, 0.9, 0.999}) {
      const auto stage = make_stage("top_p", {{"top_p", p}}, 8000);
      ASSERT_TRUE(stage.has_value());
      EXPECT_EQ(ids(sorted(run_sparse(*stage, all, 8000))), ids(top_p_oracle(all, p)))
          << seed << " " << p;
    }
  }
}

TEST(TopPTest, OneStageTakesRowAfterRow) {
  const auto stage = make_stage("top_p", {{"top_p", 0.9}}, 3000);
  ASSERT_TRUE(stage.has_value());
  for (uint32_t seed = 0; seed < 4; ++seed) {
    const auto logits = random_logits(3000, seed, 0.5f);
    const auto expected = top_p_oracle(to_candidates(logits), 0.9);
    EXPECT_NEAR(static_cast<double>(run_dense(*stage, logits).size()),
                static_cast<double>(expected.size()), 1);
  }
}

TEST(NeutralTest, NeutralFieldsLeaveTheStageOut) {
  for (const char* name : {"penalties", "top_k", "typical_p", "top_p", "min_p", "temperature"}) {
    EXPECT_FALSE(make_stage(name, {}, 100).has_value()) << name;
  }
  EXPECT_FALSE(make_stage("top_k", {{"top_k", int64_t{100}}}, 100).has_value());
  EXPECT_FALSE(make_stage("penalties", {{"repeat_penalty", 1.5}, {"repeat_last_n", int64_t{0}}}, 9)
                   .has_value());
}

}  // namespace
}  // namespace bp::samplers::testing
