#include "core/model/rope_table.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace bp::model {
namespace {

void expect_table(const RopeParameters& parameters, const std::vector<double>& expected,
                  double magnitude) {
  const auto table = make_rope_table(parameters);
  ASSERT_TRUE(table.ok()) << table.status().message();
  ASSERT_EQ(table->inv_freq.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(table->inv_freq[i] / expected[i], 1, 2e-7) << i;
  }
  EXPECT_NEAR(table->magnitude, magnitude, 1e-12);
}

RopeParameters parameters(int64_t n_dims, double base, const char* scaling, double factor,
                          double original_context) {
  RopeParameters p;
  p.n_dims = n_dims;
  p.base = base;
  p.scaling = scaling;
  p.factor = factor;
  p.original_context = original_context;
  return p;
}

// Expected values come from transformers' formulas in float64.

TEST(RopeTableTest, None) {
  expect_table(parameters(8, 10000, "none", 4, 0), {1, 0.1, 0.01, 0.001}, 1);
  expect_table(parameters(8, 10000, "default", 1, 0), {1, 0.1, 0.01, 0.001}, 1);
}

TEST(RopeTableTest, Linear) {
  expect_table(parameters(8, 10000, "linear", 4, 0), {0.25, 0.025, 0.0025, 0.00025}, 1);
}

TEST(RopeTableTest, Llama3) {
  auto p = parameters(32, 500000, "llama3", 8, 8192);
  p.low_freq_factor = 1;
  p.high_freq_factor = 4;
  expect_table(p,
               {1, 0.440366603, 0.193922745, 0.0853971003, 0.0376060309, 0.0165604401,
                0.00729266474, 0.00321144599, 0.000524846161, 7.78465527e-05, 3.4281022e-05,
                1.50962172e-05, 6.64786987e-06, 2.92749987e-06, 1.28917317e-06, 5.6770881e-07},
               1);
}

TEST(RopeTableTest, DivisorsScaleEachFrequency) {
  auto p = parameters(8, 10000, "none", 1, 0);
  p.divisors = {1, 1, 2, 8};
  expect_table(p, {1, 0.1, 0.005, 0.000125}, 1);
}

TEST(RopeTableTest, Yarn) {
  expect_table(parameters(32, 1e6, "yarn", 4, 32768),
               {1, 0.421696503, 0.177827941, 0.0749894209, 0.0316227766, 0.0133352143,
                0.00477990126, 0.00165996159, 0.00055, 0.000168678601, 4.44569853e-05,
                1.87473552e-05, 7.90569415e-06, 3.33380358e-06, 1.40585331e-06, 5.92843426e-07},
               1.138629436111989);
}

TEST(RopeTableTest, YarnWithoutTruncation) {
  auto p = parameters(16, 10000, "yarn", 16, 4096);
  p.truncate = false;
  expect_table(
      p,
      {1, 0.316227766, 0.1, 0.0278613169, 0.0056962144, 0.000816470623, 6.25e-05, 1.97642354e-05},
      1.2772588722239782);
}

TEST(RopeTableTest, YarnWithoutExtrapolationIsLinear) {
  auto p = parameters(8, 10000, "yarn", 4, 4096);
  p.extrapolation = 0;
  expect_table(p, {0.25, 0.025, 0.0025, 0.00025}, 0.1 * std::log(4.0) + 1);
}

TEST(RopeTableTest, YarnMagnitude) {
  auto p = parameters(16, 10000, "yarn", 40, 4096);
  p.mscale = 0.707;
  p.mscale_all_dim = 1;
  EXPECT_NEAR(make_rope_table(p)->magnitude, 0.9210423553163399, 1e-12);
  p.attention_multiplier = 2;
  EXPECT_NEAR(make_rope_table(p)->magnitude, 2 * 0.9210423553163399, 1e-12);
  p.attention_factor = 1.5;
  EXPECT_EQ(make_rope_table(p)->magnitude, 1.5);
}

TEST(RopeTableTest, Errors) {
  const auto message = [](const RopeParameters& p) {
    const auto table = make_rope_table(p);
    return table.ok() ? std::string() : table.status().message();
  };
  using ::testing::HasSubstr;
  EXPECT_THAT(message(parameters(7, 10000, "none", 1, 0)), HasSubstr("n_dims must be even"));
  EXPECT_THAT(message(parameters(0, 10000, "none", 1, 0)), HasSubstr("n_dims must be even"));
  EXPECT_THAT(message(parameters(8, 1, "none", 1, 0)), HasSubstr("base must be above 1"));
  EXPECT_THAT(message(parameters(8, NAN, "none", 1, 0)), HasSubstr("base must be above 1"));
  EXPECT_THAT(message(parameters(8, 10000, "linear", 0, 0)), HasSubstr("factor must be positive"));
  EXPECT_THAT(message(parameters(8, 10000, "yarn", 4, 0)), HasSubstr("needs original_context"));
  EXPECT_THAT(message(parameters(8, 10000, "yarm", 4, 0)),
              HasSubstr("scaling 'yarm' is unknown; nearest: yarn"));
  auto p = parameters(8, 10000, "llama3", 8, 8192);
  p.high_freq_factor = p.low_freq_factor;
  EXPECT_THAT(message(p), HasSubstr("high_freq_factor must be above low_freq_factor"));
  p = parameters(8, 10000, "yarn", 8, 8192);
  p.beta_slow = 0;
  EXPECT_THAT(message(p), HasSubstr("beta_fast and beta_slow must be positive"));
  p = parameters(8, 10000, "none", 1, 0);
  p.divisors = {1, 2, 3};
  EXPECT_THAT(message(p), HasSubstr("3 divisors for 4 frequencies"));
  p.divisors = {1, 2, 0, 3};
  EXPECT_THAT(message(p), HasSubstr("a frequency is not finite"));
}

}  // namespace
}  // namespace bp::model
