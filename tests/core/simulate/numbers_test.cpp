#include <gmock/gmock.h>

#include <cmath>

#include "core/engine/random.hpp"
#include "core/simulate/distribution.hpp"
#include "core/simulate/fairness.hpp"
#include "core/simulate/histogram.hpp"
#include "core/simulate/least_squares.hpp"
#include "core/simulate/percentiles.hpp"
#include "core/simulate/timeline.hpp"

namespace bp::simulate {
namespace {

double uniform(uint32_t i) {
  return engine::uniform({11, 0, i}, 0, 0);
}

TEST(PercentilesTest, AreTheSmallestSampleThatCoversTheFraction) {
  const SortedSamples samples({50, 10, 40, 20, 30});
  EXPECT_EQ(samples.quantile(0), 10);
  EXPECT_EQ(samples.quantile(0.2), 10);
  EXPECT_EQ(samples.quantile(0.21), 20);
  EXPECT_EQ(samples.quantile(0.5), 30);
  EXPECT_EQ(samples.quantile(0.99), 50);
  EXPECT_EQ(samples.quantile(1), 50);
  EXPECT_EQ(samples.mean(), 30);
  EXPECT_EQ(SortedSamples({}).quantile(0.5), 0);
}

TEST(HistogramTest, IsWithinOneInFiveHundredOfTheExactPercentiles) {
  Histogram histogram;
  std::vector<uint64_t> samples;
  for (uint32_t i = 0; i < 20'000; ++i) {
    samples.push_back(static_cast<uint64_t>(std::exp(uniform(i) * 40)));  // 1 to 2e17
    histogram.add(samples.back());
  }
  const SortedSamples exact(samples);
  for (const double q : {0.001, 0.1, 0.5, 0.9, 0.99, 0.999, 1.0}) {
    EXPECT_NEAR(histogram.quantile(q) / exact.quantile(q), 1, 1.0 / 512) << q;
  }
  EXPECT_EQ(histogram.max(), exact.max());
  EXPECT_EQ(histogram.count(), 20'000u);
}

TEST(HistogramTest, IsExactForSmallSamples) {
  Histogram histogram;
  for (uint64_t i = 1; i <= 500; ++i) histogram.add(i);
  EXPECT_EQ(histogram.quantile(0.5), 250);
  EXPECT_EQ(histogram.quantile(0.99), 495);
  EXPECT_DOUBLE_EQ(histogram.mean(), 250.5);
  EXPECT_EQ(Histogram().quantile(0.5), 0);
}

TEST(FitTest, FindsThePricesThatMadeTheTotals) {
  const std::vector<double> prices = {9000, 300, 0.5};
  std::vector<Measurement> measurements;
  for (const double n : {1.0, 4.0, 16.0}) {
    for (const double context : {32.0, 1024.0}) {
      measurements.push_back(
          {{1, n, n * context}, prices[0] + prices[1] * n + prices[2] * n * context});
    }
  }
  const auto found = fit_prices(measurements);
  ASSERT_TRUE(found.has_value());
  for (size_t i = 0; i < 3; ++i) EXPECT_NEAR((*found)[i] / prices[i], 1, 1e-6);
  EXPECT_LT(worst_error(measurements, *found), 1e-6);
}

TEST(FitTest, NeverAnswersANegativePrice) {
  // Totals that fall with the second amount.
  const std::vector<Measurement> measurements = {{{1, 1}, 100}, {{1, 2}, 90}, {{1, 3}, 80}};
  const auto found = fit_prices(measurements);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ((*found)[1], 0);
  // The least sum of squared relative errors of a constant: sum(1/t) / sum(1/t^2).
  const double sum = 1.0 / 100 + 1.0 / 90 + 1.0 / 80;
  const double squares = 1e-4 + 1.0 / 8100 + 1.0 / 6400;
  EXPECT_NEAR((*found)[0], sum / squares, 1e-6);
}

TEST(FitTest, LeavesAPriceAtZeroThatNothingMeasures) {
  const auto found = fit_prices({{{1, 0}, 5}, {{2, 0}, 10}});
  ASSERT_TRUE(found.has_value());
  EXPECT_THAT(*found, ::testing::ElementsAre(::testing::DoubleNear(5, 1e-9), 0));
  EXPECT_FALSE(fit_prices({}).has_value());
}

TEST(DistributionTest, HasTheMeanAndVariationAskedFor) {
  for (const double cv : {0.3, 1.0, 2.5}) {
    for (const auto draw : {draw_gamma, draw_log_normal}) {
      constexpr uint32_t kN = 200'000;
      double sum = 0, squares = 0;
      for (uint32_t i = 0; i < kN; ++i) {
        Draws draws(3, 0, i, 0);
        const double x = draw(draws, 50, cv);
        sum += x;
        squares += x * x;
      }
      const double mean = sum / kN, deviation = std::sqrt(squares / kN - mean * mean);
      EXPECT_NEAR(mean, 50, 50 * 0.03) << cv;
      // The fourth moment of a log-normal with cv 2.5 is huge.
      EXPECT_NEAR(deviation / mean, cv, cv * (draw == draw_log_normal && cv > 2 ? 0.3 : 0.05));
    }
  }
}

TEST(FairnessTest, IsOneForEqualRatesAndOneOfNForOneWinner) {
  const auto index = [](uint32_t first, uint32_t second) {
    Fairness f(3);  // the third never waits
    f.begin_wait(0);
    f.begin_wait(1);
    for (int step = 0; step < 10; ++step) {
      f.begin_step();
      f.serve(0, first);
      f.serve(1, second);
      f.serve(2, 1000);
      f.end_step(100);
    }
    return f.index();
  };
  EXPECT_DOUBLE_EQ(index(7, 7).value(), 1);
  EXPECT_DOUBLE_EQ(index(7, 0).value(), 0.5);
  EXPECT_DOUBLE_EQ(index(3, 1).value(), 16.0 / 20);
}

TEST(FairnessTest, CountsOnlyWhatHappensWhileTenantsCompete) {
  Fairness f(2);
  f.begin_wait(0);
  f.begin_step();
  f.serve(0, 100);
  f.end_step(100);
  EXPECT_FALSE(f.index().has_value());
  f.begin_wait(1);
  f.begin_step();
  f.end_wait(1);  // it begins to run, and competes to the end of the step
  f.serve(0, 5);
  f.serve(1, 5);
  f.end_step(1'000'000);
  EXPECT_DOUBLE_EQ(f.index().value(), 1);
  EXPECT_DOUBLE_EQ(f.rate(0), 5);
  f.begin_step();
  f.serve(0, 100);
  f.end_step(100);
  EXPECT_DOUBLE_EQ(f.index().value(), 1);
}

TEST(TimelineTest, KeepsItsSumsHoweverLongItGrows) {
  Timeline timeline;
  uint64_t at = 0;
  double running_us = 0, tokens = 0;
  for (uint32_t i = 0; i < 50'000; ++i) {
    const uint64_t length = 1 + static_cast<uint64_t>(uniform(i) * 100'000);
    const Load load = {std::floor(uniform(i + 100'000) * 10), 0, 0, 3};
    timeline.add(at, at + length, load);
    running_us += load.running * static_cast<double>(length);
    tokens += load.tokens;
    at += length;
    if (i % 100 == 0) at += 1'000'000;  // nothing happens
  }
  const auto means = timeline.means();
  EXPECT_LE(means.size(), Timeline::kMostBuckets);
  EXPECT_GT(means.size(), Timeline::kMostBuckets / 2);
  const auto bucket_us = static_cast<double>(timeline.bucket_us());
  double found_us = 0, found_tokens = 0;
  for (const Load& m : means) {
    found_us += m.running * bucket_us;
    found_tokens += m.tokens * bucket_us * 1e-6;
  }
  EXPECT_NEAR(found_us / running_us, 1, 1e-9);
  EXPECT_NEAR(found_tokens / tokens, 1, 1e-9);
}

}  // namespace
}  // namespace bp::simulate
