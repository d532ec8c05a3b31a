#include "backplane/half.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace bp {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

template <class Bits, class Widen, class Narrow>
void expect_round_trip(uint32_t n_codes, Widen widen, Narrow narrow) {
  for (uint32_t code = 0; code < n_codes; ++code) {
    const auto bits = static_cast<Bits>(code);
    const float value = widen(bits);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(widen(narrow(value)))) << code;
    } else {
      EXPECT_EQ(narrow(value), bits) << code;
    }
  }
}

TEST(Half, EveryCodeRoundTrips) {
  expect_round_trip<uint16_t>(1 << 16, f16_to_f32, f32_to_f16);
  expect_round_trip<uint16_t>(1 << 16, bf16_to_f32, f32_to_bf16);
  expect_round_trip<uint8_t>(1 << 8, f8_e5m2_to_f32, f32_to_f8_e5m2);
  expect_round_trip<uint8_t>(1 << 8, f8_e4m3_to_f32, f32_to_f8_e4m3);
  expect_round_trip<uint8_t>(1 << 8, e8m0_to_f32, f32_to_e8m0);
}

// Between two neighbours: below the middle down, above it up, on it to the even code.
template <class Bits, class Widen, class Narrow>
void expect_nearest_even(uint32_t n_positive_codes, Widen widen, Narrow narrow) {
  for (uint32_t code = 0; code + 1 < n_positive_codes; ++code) {
    const float low = widen(static_cast<Bits>(code));
    const float high = widen(static_cast<Bits>(code + 1));
    const float middle = low + (high - low) / 2;
    const uint32_t even = code % 2 == 0 ? code : code + 1;
    ASSERT_EQ(narrow(middle), even) << code;
    ASSERT_EQ(narrow(std::nextafter(middle, 0.0f)), code) << code;
    ASSERT_EQ(narrow(std::nextafter(middle, kInfinity)), code + 1) << code;
  }
}

TEST(Half, RoundsToNearestEven) {
  expect_nearest_even<uint16_t>(0x7c00, f16_to_f32, f32_to_f16);
  expect_nearest_even<uint16_t>(0x7f80, bf16_to_f32, f32_to_bf16);
  expect_nearest_even<uint8_t>(0x7c, f8_e5m2_to_f32, f32_to_f8_e5m2);
  expect_nearest_even<uint8_t>(0x7f, f8_e4m3_to_f32, f32_to_f8_e4m3);
  expect_nearest_even<uint8_t>(0xff, e8m0_to_f32, f32_to_e8m0);
}

TEST(Half, Overflow) {
  EXPECT_EQ(f32_to_f16(65519.996f), 0x7bff);
  EXPECT_EQ(f32_to_f16(65520.0f), 0x7c00);
  EXPECT_EQ(f32_to_f16(-kInfinity), 0xfc00);
  EXPECT_EQ(f32_to_bf16(std::numeric_limits<float>::max()), 0x7f80);
  EXPECT_EQ(f32_to_f8_e4m3(1e30f), 0x7e);
  EXPECT_EQ(f32_to_f8_e4m3(-kInfinity), 0xfe);
  EXPECT_EQ(f32_to_f8_e5m2(1e30f), 0x7c);
  EXPECT_EQ(f32_to_e8m0(std::numeric_limits<float>::max()), 254);
  EXPECT_EQ(f32_to_e8m0(kInfinity), 254);
}

TEST(Half, KnownValues) {
  EXPECT_EQ(f16_to_f32(0x0001), 0x1p-24f);
  EXPECT_EQ(f16_to_f32(0x7bff), 65504.0f);
  EXPECT_EQ(f16_to_f32(0xfc00), -kInfinity);
  EXPECT_TRUE(std::signbit(f16_to_f32(0x8000)));
  EXPECT_EQ(f8_e4m3_to_f32(0x01), 0x1p-9f);
  EXPECT_EQ(f8_e4m3_to_f32(0x7e), 448.0f);
  EXPECT_EQ(f8_e5m2_to_f32(0x01), 0x1p-16f);
  EXPECT_EQ(e8m0_to_f32(0), 0x1p-127f);
  EXPECT_EQ(e8m0_to_f32(254), 0x1p127f);
}

TEST(Half, NanStaysNan) {
  EXPECT_TRUE(std::isnan(f16_to_f32(f32_to_f16(kNan))));
  EXPECT_TRUE(std::isnan(bf16_to_f32(f32_to_bf16(kNan))));
  EXPECT_TRUE(std::isnan(f8_e4m3_to_f32(f32_to_f8_e4m3(kNan))));
  EXPECT_TRUE(std::isnan(f8_e5m2_to_f32(f32_to_f8_e5m2(kNan))));
  EXPECT_TRUE(std::isnan(e8m0_to_f32(f32_to_e8m0(kNan))));
}

static_assert(f16_to_f32(0x3c00) == 1.0f && f32_to_f16(0.1f) == 0x2e66);

}  // namespace
}  // namespace bp
