#pragma once
// Passes over a row of logits, four at a time with the vectors that gcc and clang lower to any
// instruction set: neither vectorises maximum or exponential by itself without relaxed arithmetic.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>

namespace bp {

namespace detail {

inline constexpr size_t kLanes = 4;
using FloatLanes = float __attribute__((vector_size(kLanes * sizeof(float))));
using IntLanes = int32_t __attribute__((vector_size(kLanes * sizeof(int32_t))));

[[nodiscard]] inline FloatLanes load_lanes(const float* from) {
  FloatLanes lanes;
  std::memcpy(&lanes, from, sizeof lanes);
  return lanes;
}
[[nodiscard]] inline FloatLanes all_lanes(float x) {
  return FloatLanes{x, x, x, x};
}
// mask ? a : b, lane by lane; mask lanes are all ones or zeros.
[[nodiscard]] inline FloatLanes select(IntLanes mask, FloatLanes a, FloatLanes b) {
  return std::bit_cast<FloatLanes>((std::bit_cast<IntLanes>(a) & mask) |
                                   (std::bit_cast<IntLanes>(b) & ~mask));
}
[[nodiscard]] inline FloatLanes greater_of(FloatLanes a, FloatLanes b) {
  return select(a > b, a, b);
}

// Coefficients of Cephes' expf.
[[nodiscard]] inline FloatLanes exp_nonpositive(FloatLanes x) {
  constexpr float kLeast = -87.0f;       // e^x is denormal soon after
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
  const FloatLanes clamped = greater_of(x, all_lanes(kLeast));
  const FloatLanes shifted = clamped * 1.44269504088896341f + kRound;
  const FloatLanes n = shifted - kRound;
  const FloatLanes r = (clamped - n * 0.693359375f) - n * -2.12194440e-4f;  // ln 2 in two parts
  FloatLanes p = r * 1.9875691500e-4f + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  const FloatLanes e = p * r * r + r + 1.0f;
  const IntLanes power = (std::bit_cast<IntLanes>(shifted) + 127) << 23;
  return select(x < kLeast, all_lanes(0), e * std::bit_cast<FloatLanes>(power));
}

}  // namespace detail

// e^x for x <= 0, relative error below 2e-7; 0 below -87 and for -inf.
[[nodiscard]] inline float exp_nonpositive(float x) {
  return detail::exp_nonpositive(detail::all_lanes(x))[0];
}

// out[i] = e^(row[i] - max); out may be row itself.
inline void exp_row(std::span<const float> row, float max, float* out) {
  size_t i = 0;
  for (; i + detail::kLanes <= row.size(); i += detail::kLanes) {
    const auto weights = detail::exp_nonpositive(detail::load_lanes(&row[i]) - max);
    std::memcpy(out + i, &weights, sizeof weights);
  }
  for (; i < row.size(); ++i) out[i] = exp_nonpositive(row[i] - max);
}

// The greatest value; -inf of none. NaNs are passed over.
[[nodiscard]] inline float max_of(std::span<const float> row) {
  using detail::kLanes;
  detail::FloatLanes lanes[4];
  for (auto& l : lanes) l = detail::all_lanes(-std::numeric_limits<float>::infinity());
  size_t i = 0;
  for (; i + 4 * kLanes <= row.size(); i += 4 * kLanes) {
    for (size_t k = 0; k < 4; ++k) {
      lanes[k] = detail::greater_of(detail::load_lanes(&row[i + k * kLanes]), lanes[k]);
    }
  }
  float max = lanes[0][0];
  for (const auto& l : lanes) {
    for (size_t k = 0; k < kLanes; ++k) max = l[k] > max ? l[k] : max;
  }
  for (; i < row.size(); ++i) max = row[i] > max ? row[i] : max;
  return max;
}

// The order of additions is fixed.
[[nodiscard]] inline double sum_of(std::span<const float> row) {
  using Doubles = double __attribute__((vector_size(2 * sizeof(double))));
  Doubles sums[2] = {};
  size_t i = 0;
  for (; i + 4 <= row.size(); i += 4) {
    sums[0] += Doubles{static_cast<double>(row[i]), static_cast<double>(row[i + 1])};
    sums[1] += Doubles{static_cast<double>(row[i + 2]), static_cast<double>(row[i + 3])};
  }
  double sum = (sums[0][0] + sums[1][0]) + (sums[0][1] + sums[1][1]);
  for (; i < row.size(); ++i) sum += static_cast<double>(row[i]);
  return sum;
}

// Sum of e^(x - max); `max` is at least every x.
[[nodiscard]] inline double sum_exp(std::span<const float> row, float max) {
  float weights[256];
  double total = 0;
  for (size_t begin = 0; begin < row.size(); begin += 256) {
    const size_t n = row.size() - begin < 256 ? row.size() - begin : 256;
    exp_row(row.subspan(begin, n), max, weights);
    total += sum_of({weights, n});
  }
  return total;
}

}  // namespace bp
