// Passes over rows of logits, by each of the processor's instruction sets.

#include "backplane/softmax.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

namespace bp {
namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();
constexpr size_t kSizes[] = {0, 1, 3, 15, 16, 17, 31, 33, 63, 64, 65, 127, 130, 1000};

std::vector<float> random_row(size_t n) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal(0, 3);
  std::vector<float> row(n);
  for (float& x : row) x = normal(random);
  return row;
}

class SoftmaxTest : public ::testing::TestWithParam<const detail::RowPasses*> {};

TEST_P(SoftmaxTest, FindsNanAndInfinityAnywhere) {
  for (const size_t n : kSizes) {
    std::vector<float> row = random_row(n);
    if (n > 1) row[n / 3] = kMinusInfinity;
    EXPECT_FALSE(GetParam()->has_nan_or_infinity(row.data(), n));
    for (const float bad : {-kMinusInfinity, std::nanf(""), -std::nanf("")}) {
      for (size_t at = 0; at < n; at = 2 * at + 1) {
        std::vector<float> broken = row;
        broken[at] = bad;
        EXPECT_TRUE(GetParam()->has_nan_or_infinity(broken.data(), n)) << n << " " << at;
      }
    }
  }
}

TEST_P(SoftmaxTest, FindsTheGreatestAndPassesOverNan) {
  EXPECT_EQ(GetParam()->max_of(nullptr, 0), kMinusInfinity);
  for (const size_t n : kSizes) {
    for (size_t at = 0; at < n; at = 2 * at + 1) {
      std::vector<float> row(n, kMinusInfinity);
      row[(at + 1) % n] = std::nanf("");
      row[at] = -4;
      EXPECT_EQ(GetParam()->max_of(row.data(), n), -4) << n << " " << at;
    }
  }
}

TEST_P(SoftmaxTest, ExponentialsAreAccurateAndTheSameByAnyWidth) {
  std::vector<float> row;
  for (float x = 0; x > -86; x -= 0.0137f) row.push_back(3 + x);
  std::vector<float> weights(row.size());
  GetParam()->exp_row(row.data(), row.size(), 3, 1, weights.data());
  for (size_t i = 0; i < row.size(); ++i) {
    const float x = row[i] - 3;
    EXPECT_NEAR(static_cast<double>(weights[i]) / std::exp(static_cast<double>(x)), 1, 2e-7) << x;
    EXPECT_EQ(weights[i], exp_nonpositive(x)) << x;
  }
}

TEST_P(SoftmaxTest, FarAwayWeighsNothing) {
  const std::vector<float> row = {kMinusInfinity, -90, 0};
  std::vector<float> weights = row;
  GetParam()->exp_row(weights.data(), 3, 0, 1, weights.data());
  EXPECT_EQ(weights, (std::vector<float>{0, 0, 1}));
}

TEST_P(SoftmaxTest, WritesNoFurtherThanTheRow) {
  for (const size_t n : kSizes) {
    const std::vector<float> row = random_row(n);
    std::vector<float> weights(n + 1, -7);
    GetParam()->exp_row(row.data(), n, 20, 1, weights.data());
    EXPECT_EQ(weights[n], -7);
    EXPECT_TRUE(std::all_of(weights.begin(), weights.end() - 1, [](float w) { return w > 0; }));
  }
}

TEST_P(SoftmaxTest, SumsHaveOneOrderByAnyWidth) {
  const detail::RowPasses& narrowest = *detail::all_row_passes().back();
  for (const size_t n : kSizes) {
    const std::vector<float> row = random_row(n);
    const float max = GetParam()->max_of(row.data(), n);
    double sum = 0, weights = 0;
    for (const float x : row) {
      sum += static_cast<double>(x);
      weights += std::exp(static_cast<double>(x) - static_cast<double>(max));
    }
    EXPECT_NEAR(GetParam()->sum_of(row.data(), n), sum, 1e-9 * static_cast<double>(n));
    EXPECT_NEAR(GetParam()->sum_exp(row.data(), n, max), weights, 3e-7 * weights);
    EXPECT_EQ(GetParam()->sum_of(row.data(), n), narrowest.sum_of(row.data(), n));
    EXPECT_EQ(GetParam()->sum_exp(row.data(), n, max), narrowest.sum_exp(row.data(), n, max));
  }
}

TEST_P(SoftmaxTest, SumsBlocksOfADraw) {
  const detail::RowPasses& narrowest = *detail::all_row_passes().back();
  for (const size_t n : {1, 15, 17, 1000, 1023, 1024, 1025, 5000}) {
    std::vector<float> row = random_row(n);
    row[n / 2] = kMinusInfinity;
    const size_t n_blocks = (n + kDrawBlock - 1) / kDrawBlock;
    for (const float least : {-4.0f, std::numeric_limits<float>::lowest()}) {
      std::vector<double> expected(n_blocks), sums(n_blocks + 1, -7), same(n_blocks);
      for (size_t i = 0; i < n; ++i) {
        const double distance = static_cast<double>(row[i]) - 12;
        if (row[i] >= least) expected[i / kDrawBlock] += std::exp(distance * 0.7);
      }
      GetParam()->sums_of_draw(row.data(), n, 12, least, 0.7f, sums.data());
      narrowest.sums_of_draw(row.data(), n, 12, least, 0.7f, same.data());
      EXPECT_EQ(sums.back(), -7);
      for (size_t b = 0; b < n_blocks; ++b) {
        EXPECT_NEAR(sums[b], expected[b], 4e-6 * expected[b]) << n << " " << b;
        EXPECT_EQ(sums[b], same[b]);
      }
    }
  }
}

TEST_P(SoftmaxTest, EstimatesTheMassBelowALogit) {
  constexpr double kAll = std::numeric_limits<double>::infinity();
  constexpr double kPadding = 1e-28;  // what -inf and the last vector's padding count as
  const detail::RowPasses& narrowest = *detail::all_row_passes().back();
  for (const size_t n : {1, 15, 17, 1000, 1023, 1024, 1025, 5000}) {
    std::vector<float> row = random_row(n);
    if (n > 20) row[n / 2] = row[7], row[11] = kMinusInfinity;
    const float logit = row[std::min<size_t>(n - 1, 7)];
    const auto mass_of = [&](size_t n_looked_at) {
      MassBelow mass{0, 0};
      for (size_t i = 0; i < n_looked_at; ++i) {
        const double weight = std::exp(static_cast<double>(row[i]) - 12);
        mass.all += weight;
        mass.below += row[i] < logit ? weight : 0;
      }
      return mass;
    };
    const auto expect_mass = [&](double enough, size_t n_looked_at) {
      const MassBelow expected = mass_of(n_looked_at);
      double sums[2], same[2];
      GetParam()->estimate_below(row.data(), n, 12, logit, enough, sums);
      narrowest.estimate_below(row.data(), n, 12, logit, enough, same);
      EXPECT_NEAR(sums[0], expected.all, ExpEstimate::kError * expected.all) << n;
      EXPECT_NEAR(sums[1], expected.below, ExpEstimate::kError * expected.below + kPadding) << n;
      EXPECT_EQ(sums[0], same[0]);
      EXPECT_EQ(sums[1], same[1]);
    };
    expect_mass(kAll, n);
    expect_mass(0.5 * mass_of(std::min<size_t>(n, 1024)).below, std::min<size_t>(n, 1024));
    expect_mass(2 * mass_of(n).below, n);
  }
}

double total(const double (&sums)[detail::kPassValues]) {
  double total = 0;
  for (const double sum : sums) total += sum;
  return total;
}

TEST_P(SoftmaxTest, EstimatesTheSumUpToTheBlockThatReachesAValue) {
  constexpr float kMax = 40, kLeast = 30;
  const detail::RowPasses& narrowest = *detail::all_row_passes().back();
  for (const size_t n : {0, 1, 15, 17, 63, 64, 65, 127, 130, 1000, 1024, 1090, 5000}) {
    for (size_t at = 0; at <= n; at = 2 * at + 1) {  // at n nothing reaches it
      std::vector<float> row = random_row(n);
      if (n > 3) row[n / 3] = kMinusInfinity;
      if (at < n) row[at] = kLeast;
      const size_t begin = at < n ? at / kSkipBlock * kSkipBlock : n;
      double expected = 0.25;
      for (size_t i = 0; i < std::min(n, begin + kSkipBlock); ++i) {
        if (i != at) expected += std::exp(static_cast<double>(row[i]) - static_cast<double>(kMax));
      }
      double sums[detail::kPassValues] = {0.25}, same[detail::kPassValues] = {0.25};
      EXPECT_EQ(GetParam()->estimate_until(row.data(), n, kMax, kLeast, sums), begin) << n;
      EXPECT_NEAR(total(sums), expected, ExpEstimate::kError * expected) << n << " " << at;
      narrowest.estimate_until(row.data(), n, kMax, kLeast, same);
      EXPECT_EQ(total(sums), total(same));
    }
  }
}

TEST_P(SoftmaxTest, EstimatesEachExponentialClosely) {
  constexpr double kNothing = detail::kPassValues * 0x1.001p-100;  // a value and what pads it
  for (float x = 0; x > -69; x -= 0.0137f) {
    double sums[detail::kPassValues] = {};
    EXPECT_EQ(GetParam()->estimate_until(&x, 1, 0, 1, sums), 1);
    const double exact = std::exp(static_cast<double>(x));
    ASSERT_NEAR(total(sums), exact, ExpEstimate::kError / 2 * exact + kNothing) << x;
  }
  for (const float far : {-70.0f, -90.0f, -1e30f, kMinusInfinity}) {
    double sums[detail::kPassValues] = {};
    EXPECT_EQ(GetParam()->estimate_until(&far, 1, 0, 1, sums), 1);
    EXPECT_LE(total(sums), kNothing) << far;
  }
}

TEST(ExpEstimateTest, GoesThroughARowBlockByBlock) {
  std::vector<float> row = random_row(1000);
  const std::vector<size_t> great = {70, 71, 130, 500, 999};
  double expected = 0;
  for (const float x : row) expected += std::exp(static_cast<double>(x) - 20);
  for (const size_t at : great) {
    expected -= std::exp(static_cast<double>(row[at]) - 20);
    row[at] = 20;
  }
  ExpEstimate estimate;
  std::vector<size_t> found;
  for (size_t begin = 0; begin < row.size();) {
    begin += estimate.add_until(std::span<const float>(row).subspan(begin), 20, 13);
    for (const size_t end = std::min(begin + kSkipBlock, row.size()); begin < end; ++begin) {
      if (row[begin] == 20) found.push_back(begin);
    }
  }
  EXPECT_EQ(found, great);
  EXPECT_NEAR(estimate.sum(), expected, ExpEstimate::kError * expected);
}

TEST_P(SoftmaxTest, SumsFromSeveralThresholds) {
  for (const size_t n : {0, 1, 15, 17, 1000, 1023, 1024, 1025, 5000}) {
    std::vector<float> values = random_row(n);
    for (float& value : values) value = std::abs(value);
    const float least[kThresholds] = {1e-3f, 1, n > 0 ? values[n / 2] : 2, 5};
    double sums[kThresholds];
    GetParam()->sums_from(values.data(), n, least, sums);
    for (size_t t = 0; t < kThresholds; ++t) {
      double expected = 0;
      for (const float value : values) {
        if (value >= least[t]) expected += static_cast<double>(value);
      }
      EXPECT_NEAR(sums[t], expected, 1e-5 * expected) << n << " " << t;
    }
  }
}

TEST_P(SoftmaxTest, SkipsWholeBlocksOutside) {
  for (const size_t n : kSizes) {
    std::vector<float> row(n, 1);
    const size_t whole = n / kSkipBlock * kSkipBlock;
    EXPECT_EQ(GetParam()->skip_outside(row.data(), n, 2, 3), whole);
    for (size_t at = 0; at < n; at = 2 * at + 1) {
      row.assign(n, 1);
      row[at] = 2;
      EXPECT_EQ(GetParam()->skip_outside(row.data(), n, 2, 3),
                std::min(at / kSkipBlock * kSkipBlock, whole));
      row[at] = 3;
      EXPECT_EQ(GetParam()->skip_outside(row.data(), n, 2, 3), whole);
    }
  }
}

TEST_P(SoftmaxTest, MarksWhatIsGreatEnough) {
  const std::vector<float> row = random_row(kSkipBlock);
  std::vector<uint8_t> marks(kSkipBlock + 1, 7);
  GetParam()->mark_from(row.data(), row[5], marks.data());
  for (size_t i = 0; i < kSkipBlock; ++i) EXPECT_EQ(marks[i], row[i] >= row[5] ? 255 : 0) << i;
  EXPECT_EQ(marks.back(), 7);
}

TEST(ForEachFromTest, NamesThemInOrder) {
  for (size_t n = 0; n <= kSkipBlock; ++n) {
    const std::vector<float> row = random_row(n);
    for (const float least : {-100.0f, -1.0f, 3.0f, 100.0f}) {
      std::vector<size_t> expected, found;
      for (size_t i = 0; i < n; ++i) {
        if (row[i] >= least) expected.push_back(i);
      }
      for_each_from(row, least, [&](size_t i) { found.push_back(i); });
      EXPECT_EQ(found, expected) << n << " " << least;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Widths, SoftmaxTest,
                         ::testing::ValuesIn(detail::all_row_passes().begin(),
                                             detail::all_row_passes().end()),
                         [](const auto& width) {
                           return "Lanes" + std::to_string(width.param->n_lanes);
                         });

}  // namespace
}  // namespace bp
