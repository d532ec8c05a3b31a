#pragma once
// One scale, or a scale and a minimum, for some values: candidates snap the values to quants, and
// least squares over those quants give the scale. All counts are multiples of 8.

#include <cmath>
#include <cstdint>

#include "core/quantize/block.hpp"
#include "core/quantize/levels.hpp"

namespace bp::quantize {

// Sums in eight lanes, so that they are the same for every width of vectors.
struct LaneSum {
  float lanes[8] = {};
  [[nodiscard]] float total() const {
    return ((lanes[0] + lanes[4]) + (lanes[1] + lanes[5])) +
           ((lanes[2] + lanes[6]) + (lanes[3] + lanes[7]));
  }
};

// value = scale * quant
struct ScaleFit {
  float scale = 0;
  float curvature = 0;  // sum of w * quant^2: the error grows by it times (scale's change)^2
};

template <class Levels>
ScaleFit fit_at(const Levels& levels, float inverse_scale, const float* x, const float* w, int n) {
  LaneSum wxq, wqq;
  for (int i = 0; i < n; i += 8) {
    for (int l = 0; l < 8; ++l) {
      const float q = levels.snap(x[i + l] * inverse_scale);
      const float wq = w[i + l] * q;
      wxq.lanes[l] += wq * x[i + l];
      wqq.lanes[l] += wq * q;
    }
  }
  const float sum = wqq.total();
  return {sum > 0 ? wxq.total() / sum : 0.0f, sum};
}

// By how much the fit lessens the square error of nothing but zeros.
[[nodiscard]] inline float gain(const ScaleFit& fit) {
  return fit.scale * fit.scale * fit.curvature;
}

[[nodiscard]] inline float peak(const float* x, int n) {
  float peak = 0;
  for (int i = 0; i < n; ++i) {
    if (std::fabs(x[i]) > std::fabs(peak)) peak = x[i];
  }
  return peak;
}

template <class Levels>
ScaleFit fit_scale(const Levels& levels, const float* x, const float* w, int n) {
  const float top = peak(x, n);
  ScaleFit best;
  if (std::fabs(top) < kTiny) return best;
  for (const PeakRange& range : levels.peaks()) {
    const int steps = static_cast<int>((range.last - range.first) / range.step + 0.5f);
    for (int i = 0; i <= steps; ++i) {
      const float level = range.first + static_cast<float>(i) * range.step;
      const ScaleFit fit = fit_at(levels, level / top, x, w, n);
      if (gain(fit) > gain(best)) best = fit;
    }
  }
  if (best.scale == 0) return best;
  const ScaleFit again = fit_at(levels, 1.0f / best.scale, x, w, n);
  return gain(again) > gain(best) ? again : best;
}

template <class Levels>
float scale_error(const Levels& levels, float scale, const float* x, const float* w, int n) {
  const float inverse_scale = inverse(scale);
  LaneSum sum;
  for (int i = 0; i < n; i += 8) {
    for (int l = 0; l < 8; ++l) {
      const float error = x[i + l] - scale * levels.snap(x[i + l] * inverse_scale);
      sum.lanes[l] += w[i + l] * error * error;
    }
  }
  return sum.total();
}

// value = scale * quant + offset, quants 0..max
struct AffineFit {
  float scale = 0;
  float offset = 0;
  float curvature = 0;  // sum of w * quant^2
  float error = 0;
};

// Whether offsets above zero may be.
enum class Offset { kAny, kAtMostZero };

template <int kMax, Offset kOffset>
AffineFit affine_at(float inverse_scale, float base, const float* x, const float* w, int n) {
  constexpr WholeLevels<0, kMax> levels;
  LaneSum sw, swx, swxx, swq, swqq, swxq;
  for (int i = 0; i < n; i += 8) {
    for (int l = 0; l < 8; ++l) {
      const float q = levels.snap((x[i + l] - base) * inverse_scale);
      const float wx = w[i + l] * x[i + l], wq = w[i + l] * q;
      sw.lanes[l] += w[i + l];
      swx.lanes[l] += wx;
      swxx.lanes[l] += wx * x[i + l];
      swq.lanes[l] += wq;
      swqq.lanes[l] += wq * q;
      swxq.lanes[l] += wx * q;
    }
  }
  const float w_sum = sw.total(), x_sum = swx.total(), q_sum = swq.total();
  const float qq_sum = swqq.total(), xq_sum = swxq.total();
  AffineFit fit{0, x_sum / w_sum, qq_sum, 0};
  const float determinant = w_sum * qq_sum - q_sum * q_sum;
  if (determinant > 0) {
    fit.scale = (w_sum * xq_sum - q_sum * x_sum) / determinant;
    fit.offset = (qq_sum * x_sum - q_sum * xq_sum) / determinant;
  }
  if (kOffset == Offset::kAtMostZero && fit.offset > 0) {
    fit.offset = 0;
    fit.scale = qq_sum > 0 ? xq_sum / qq_sum : 0.0f;
  }
  fit.error = swxx.total() - fit.scale * xq_sum - fit.offset * x_sum;
  return fit;
}

template <int kMax, Offset kOffset>
AffineFit fit_affine(const float* x, const float* w, int n) {
  float low = x[0], high = x[0];
  for (int i = 1; i < n; ++i) {
    low = x[i] < low ? x[i] : low;
    high = x[i] > high ? x[i] : high;
  }
  if (kOffset == Offset::kAtMostZero && low > 0) low = 0;
  if (high - low < kTiny) return affine_at<kMax, kOffset>(0, low, x, w, n);
  // How far the range is cut at its upper end; the lower end follows from the least squares.
  constexpr int kSteps = 12;
  constexpr float kWidest = kMax < 8 ? 1.2f : 0.8f;
  AffineFit best = affine_at<kMax, kOffset>(kMax / (high - low), low, x, w, n);
  for (int i = 0; i <= kSteps; ++i) {
    const float step = -0.5f + (0.5f + kWidest) * static_cast<float>(i) / kSteps;
    AffineFit fit = affine_at<kMax, kOffset>((kMax + step) / (high - low), low, x, w, n);
    if (fit.scale > kTiny) {
      const AffineFit again = affine_at<kMax, kOffset>(1.0f / fit.scale, fit.offset, x, w, n);
      if (again.error < fit.error) fit = again;
    }
    if (fit.error < best.error && fit.scale > 0) best = fit;
  }
  return best;
}

template <int kMax>
float affine_error(float scale, float offset, const float* x, const float* w, int n) {
  constexpr WholeLevels<0, kMax> levels;
  const float inverse_scale = inverse(scale);
  LaneSum sum;
  for (int i = 0; i < n; i += 8) {
    for (int l = 0; l < 8; ++l) {
      const float q = levels.snap((x[i + l] - offset) * inverse_scale);
      const float error = x[i + l] - (scale * q + offset);
      sum.lanes[l] += w[i + l] * error * error;
    }
  }
  return sum.total();
}

}  // namespace bp::quantize
