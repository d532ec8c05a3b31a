#include "backplane/reference/encode.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "backplane/dtype.hpp"
#include "backplane/reference/decode.hpp"

namespace bp::reference {
namespace {

std::vector<float> round_trip(bp_dtype dtype, const std::vector<float>& in) {
  std::vector<uint8_t> blocks(row_bytes(dtype, in.size()));
  Status status = encode_row(dtype, in.data(), in.size(), blocks.data());
  EXPECT_TRUE(status.ok()) << status.message();
  std::vector<float> out(in.size());
  status = decode_row(dtype, blocks.data(), in.size(), out.data());
  EXPECT_TRUE(status.ok()) << status.message();
  return out;
}

TEST(EncodeRow, ErrorStaysWithinHalfAStep) {
  // Steps relative to the range -1..1 of the data: half a step, and the rounding of f16 scales.
  const struct {
    bp_dtype dtype;
    float bound;
  } cases[] = {{BP_DTYPE_F32, 0},
               {BP_DTYPE_F16, 0x1p-11f},
               {BP_DTYPE_BF16, 0x1p-8f},
               {BP_DTYPE_F8_E4M3, 0x1p-4f},
               {BP_DTYPE_F8_E5M2, 0x1p-3f},
               {BP_DTYPE_Q8_0, 0.0047f},
               {BP_DTYPE_Q5_1, 0.035f},
               {BP_DTYPE_Q4_1, 0.07f},
               // The peak takes the lowest level, so that the other end may be clamped by one step.
               {BP_DTYPE_Q5_0, 0.066f},
               {BP_DTYPE_Q4_0, 0.13f}};
  std::mt19937 random(1);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> in(32 * 64);
  for (float& x : in) x = uniform(random);
  for (const auto& c : cases) {
    const auto out = round_trip(c.dtype, in);
    float worst = 0;
    for (size_t i = 0; i < in.size(); ++i) worst = std::max(worst, std::fabs(in[i] - out[i]));
    EXPECT_LE(worst, c.bound) << dtype_name(c.dtype);
  }
}

TEST(EncodeRow, ZerosStayZero) {
  const std::vector<float> zeros(32);
  for (bp_dtype t : {BP_DTYPE_Q4_0, BP_DTYPE_Q4_1, BP_DTYPE_Q5_0, BP_DTYPE_Q5_1, BP_DTYPE_Q8_0}) {
    EXPECT_EQ(round_trip(t, zeros), zeros) << dtype_name(t);
  }
}

TEST(EncodeRow, RefusesTypesThatNeedMoreThanRounding) {
  const std::vector<float> in(256);
  std::vector<uint8_t> blocks(1024);
  EXPECT_EQ(encode_row(BP_DTYPE_Q4_K, in.data(), 256, blocks.data()).code(), Code::kUnsupported);
  EXPECT_EQ(encode_row(BP_DTYPE_Q8_0, in.data(), 33, blocks.data()).code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace bp::reference
