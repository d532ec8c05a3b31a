#include "core/quantize/encode.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <initializer_list>
#include <limits>
#include <random>
#include <vector>

#include "backplane/dtype.hpp"
#include "backplane/reference/decode.hpp"

namespace bp::quantize {
namespace {

std::vector<bp_dtype> encoded_types() {
  std::vector<bp_dtype> types;
  for (bp_dtype t = 1; t < BP_DTYPE_COUNT; ++t) {
    if (block_encoder(t) != nullptr) types.push_back(t);
  }
  return types;
}

std::vector<float> normal_values(size_t n, float spread, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, spread);
  std::vector<float> values(n);
  for (float& value : values) value = normal(random);
  return values;
}

std::vector<float> round_trip(bp_dtype dtype, const std::vector<float>& in,
                              const float* importance = nullptr) {
  std::vector<uint8_t> blocks(row_bytes(dtype, in.size()));
  Status status = encode_row(dtype, in.data(), importance, in.size(), blocks.data());
  EXPECT_TRUE(status.ok()) << status.message();
  std::vector<float> out(in.size());
  status = reference::decode_row(dtype, blocks.data(), in.size(), out.data());
  EXPECT_TRUE(status.ok()) << status.message();
  return out;
}

// Root of the weighted mean square error.
double error_of(const std::vector<float>& in, const std::vector<float>& out,
                const std::vector<float>& weights) {
  double squares = 0, total = 0;
  for (size_t i = 0; i < in.size(); ++i) {
    squares += weights[i] * std::pow(in[i] - out[i], 2);
    total += weights[i];
  }
  return std::sqrt(squares / total);
}

// Per type a bound on the error of normally distributed values of deviation 1, just above what the
// number of bits leaves.
double bound_of(bp_dtype dtype) {
  switch (dtype) {
    case BP_DTYPE_F32:
      return 0;
    case BP_DTYPE_F16:
      return 0.0003;
    case BP_DTYPE_BF16:
      return 0.002;
    case BP_DTYPE_Q8_0:
      return 0.006;
    case BP_DTYPE_Q6_K:
      return 0.019;
    case BP_DTYPE_Q5_K:
    case BP_DTYPE_Q5_0:
    case BP_DTYPE_Q5_1:
      return 0.042;
    case BP_DTYPE_Q4_0:
    case BP_DTYPE_Q4_1:
    case BP_DTYPE_Q4_K:
    case BP_DTYPE_IQ4_NL:
    case BP_DTYPE_IQ4_XS:
      return 0.088;
    case BP_DTYPE_MXFP4:
    case BP_DTYPE_NVFP4:
      return 0.125;
    case BP_DTYPE_Q3_K:
    case BP_DTYPE_IQ3_S:
      return 0.155;
    case BP_DTYPE_IQ3_XXS:
      return 0.2;
    case BP_DTYPE_Q2_K:
    case BP_DTYPE_IQ2_S:
      return 0.29;
    case BP_DTYPE_IQ2_XS:
      return 0.32;
    case BP_DTYPE_IQ2_XXS:
      return 0.36;
    default:
      return 0.66;  // a sign, and at most half a bit more
  }
}

TEST(EncodeRow, ErrorIsThatOfTheBits) {
  const auto in = normal_values(16 * 256, 1, 7);
  const std::vector<float> ones(in.size(), 1.0f);
  for (const bp_dtype dtype : encoded_types()) {
    EXPECT_LE(error_of(in, round_trip(dtype, in), ones), bound_of(dtype)) << dtype_name(dtype);
  }
}

TEST(EncodeRow, ErrorScalesWithTheValues) {
  const auto in = normal_values(4 * 256, 0.02f, 8);
  const std::vector<float> ones(in.size(), 1.0f);
  for (const bp_dtype dtype : encoded_types()) {
    // f8 and power-of-two scales do not follow the values exactly.
    const double room = dtype == BP_DTYPE_MXFP4 || dtype == BP_DTYPE_NVFP4 ? 1.3 : 1.1;
    EXPECT_LE(error_of(in, round_trip(dtype, in), ones), 0.02 * room * bound_of(dtype))
        << dtype_name(dtype);
  }
}

TEST(EncodeRow, ImportanceLessensTheWeightedError) {
  const auto in = normal_values(16 * 256, 1, 9);
  std::vector<float> importance = normal_values(in.size(), 1, 10);
  for (float& value : importance) value = std::exp(2 * value);
  for (const bp_dtype dtype : encoded_types()) {
    // Rounding to the nearest is the best that these can do for any importance.
    if (!is_block_quantised(dtype) || dtype == BP_DTYPE_Q8_0) continue;
    const double plain = error_of(in, round_trip(dtype, in), importance);
    const double weighted = error_of(in, round_trip(dtype, in, importance.data()), importance);
    EXPECT_LT(weighted, plain) << dtype_name(dtype);
  }
}

TEST(EncodeRow, ExtremesBecomeFiniteValues) {
  std::vector<std::vector<float>> rows(6, std::vector<float>(512));
  rows[1][300] = 1.0f;
  for (float& value : rows[2]) value = -3.0f;
  for (size_t i = 0; i < 512; ++i) rows[3][i] = i % 2 == 0 ? 6e4f : -1e-38f;
  for (size_t i = 0; i < 512; ++i) rows[4][i] = 1e-40f * static_cast<float>(i % 7);
  for (size_t i = 0; i < 512; ++i) rows[5][i] = i % 3 == 0 ? -9e15f : 2.0f;
  std::vector<float> nothing(512, 0.0f);
  for (const bp_dtype dtype : encoded_types()) {
    EXPECT_EQ(error_of(rows[0], round_trip(dtype, rows[0]), rows[1]), 0) << dtype_name(dtype);
    for (const auto& row : rows) {
      if (dtype == BP_DTYPE_F16 && &row == &rows[5]) continue;  // beyond its range by itself
      for (const float* importance : std::initializer_list<const float*>{nullptr, nothing.data()}) {
        for (const float value : round_trip(dtype, row, importance)) {
          ASSERT_TRUE(std::isfinite(value)) << dtype_name(dtype);
        }
      }
    }
  }
}

TEST(EncodeRow, ConstantsOfTernaryModelsAreExact) {
  std::mt19937 random(11);
  std::vector<float> in(1024);
  for (float& value : in) value = 0.75f * (static_cast<float>(random() % 3) - 1.0f);
  for (const bp_dtype dtype : {BP_DTYPE_TQ1_0, BP_DTYPE_TQ2_0}) {
    EXPECT_EQ(round_trip(dtype, in), in) << dtype_name(dtype);
  }
}

TEST(EncodeRow, RefusesWhatItCannotEncode) {
  std::vector<float> in(256);
  std::vector<uint8_t> blocks(2048);
  EXPECT_EQ(encode_row(BP_DTYPE_Q8_1, in.data(), nullptr, 256, blocks.data()).code(),
            Code::kUnsupported);
  EXPECT_EQ(encode_row(BP_DTYPE_COUNT, in.data(), nullptr, 256, blocks.data()).code(),
            Code::kUnsupported);
  EXPECT_EQ(encode_row(BP_DTYPE_Q8_0, in.data(), nullptr, 33, blocks.data()).code(),
            Code::kInvalidArgument);
  for (const float value : {std::numeric_limits<float>::quiet_NaN(), -INFINITY, 2e16f}) {
    in[200] = value;
    EXPECT_EQ(encode_row(BP_DTYPE_Q4_K, in.data(), nullptr, 256, blocks.data()).code(),
              Code::kInvalidArgument);
    EXPECT_TRUE(encode_row(BP_DTYPE_BF16, in.data(), nullptr, 256, blocks.data()).ok());
  }
}

}  // namespace
}  // namespace bp::quantize
