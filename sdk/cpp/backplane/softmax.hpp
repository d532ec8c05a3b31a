#pragma once
// Passes over a row of logits that compilers vectorise (with -O3) without relaxed floating point.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>

namespace bp {

// e^x for x <= 0, relative error below 2e-7; 0 below -87 and for -inf. Coefficients of Cephes'
// expf.
[[nodiscard]] inline float exp_nonpositive(float x) {
  constexpr float kLog2e = 1.44269504088896341f;
  constexpr float kLn2High = 0.693359375f, kLn2Low = -2.12194440e-4f;
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
  const float clamped = x < -87.0f ? -87.0f : x;
  const float shifted = clamped * kLog2e + kRound;
  const float n = shifted - kRound;
  const float r = (clamped - n * kLn2High) - n * kLn2Low;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  const float e = p * r * r + r + 1.0f;
  const uint32_t exponent = (std::bit_cast<uint32_t>(shifted) + 127u) << 23;
  const float result = e * std::bit_cast<float>(exponent);
  return x < -87.0f ? 0.0f : result;
}

// The greatest value; -inf of none. NaNs are passed over.
[[nodiscard]] inline float max_of(std::span<const float> row) {
  constexpr size_t kLanes = 16;
  float lanes[kLanes];
  for (float& lane : lanes) lane = -std::numeric_limits<float>::infinity();
  size_t i = 0;
  for (; i + kLanes <= row.size(); i += kLanes) {
    for (size_t k = 0; k < kLanes; ++k) lanes[k] = row[i + k] > lanes[k] ? row[i + k] : lanes[k];
  }
  for (; i < row.size(); ++i) lanes[0] = row[i] > lanes[0] ? row[i] : lanes[0];
  for (const float lane : lanes) lanes[0] = lane > lanes[0] ? lane : lanes[0];
  return lanes[0];
}

// Sum of e^(x - max); `max` is at least every x. The order of additions is fixed.
[[nodiscard]] inline double sum_exp(std::span<const float> row, float max) {
  constexpr size_t kLanes = 16, kBlock = 1024;
  double total = 0;
  for (size_t begin = 0; begin < row.size(); begin += kBlock) {
    const auto block = row.subspan(begin, std::min(kBlock, row.size() - begin));
    float lanes[kLanes] = {};
    size_t i = 0;
    for (; i + kLanes <= block.size(); i += kLanes) {
      for (size_t k = 0; k < kLanes; ++k) lanes[k] += exp_nonpositive(block[i + k] - max);
    }
    for (; i < block.size(); ++i) lanes[i % kLanes] += exp_nonpositive(block[i] - max);
    float sum = 0;
    for (const float lane : lanes) sum += lane;
    total += static_cast<double>(sum);
  }
  return total;
}

}  // namespace bp
