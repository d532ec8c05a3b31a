#pragma once
// Super-blocks of 256 values without minima: groups share one f16 scale `d`, and each has a whole
// number to multiply it with. q3_K, q6_K, iq4_xs.

#include <algorithm>
#include <array>
#include <cmath>

#include "core/quantize/block.hpp"
#include "core/quantize/fit.hpp"

namespace bp::quantize {

template <int kGroups>
struct GroupedScales {
  float d = 0;  // representable in f16
  std::array<int, kGroups> multiple{};
  float error = 0;
  [[nodiscard]] float scale(int group) const {
    return d * static_cast<float>(multiple[static_cast<size_t>(group)]);
  }
};

// The multiples near those wanted that leave the least error under this d.
template <int kGroups, int kLowest, int kHighest, class Levels>
GroupedScales<kGroups> choose_multiples(const Levels& levels, float d, const float* wanted,
                                        const float* x, const float* w) {
  constexpr int kWidth = 256 / kGroups;
  GroupedScales<kGroups> chosen;
  chosen.d = round_to_f16(d);
  for (int g = 0; g < kGroups; ++g) {
    const float* xg = x + g * kWidth;
    const float* wg = w + g * kWidth;
    const float ratio =
        std::fabs(chosen.d) < kTiny ? 0.0f : std::clamp(wanted[g] / chosen.d, -1e4f, 1e4f);
    const int middle = std::clamp(static_cast<int>(std::lround(ratio)), kLowest, kHighest);
    float least = INFINITY;
    for (int m = std::max(middle - 1, kLowest); m <= std::min(middle + 1, kHighest); ++m) {
      const float error = scale_error(levels, chosen.d * static_cast<float>(m), xg, wg, kWidth);
      if (error >= least) continue;
      least = error;
      chosen.multiple[static_cast<size_t>(g)] = m;
    }
    chosen.error += least;
  }
  return chosen;
}

// The d that least squares give for the quants of `chosen`.
template <int kGroups, class Levels>
float refit_d(const Levels& levels, const GroupedScales<kGroups>& chosen, const float* x,
              const float* w) {
  constexpr int kWidth = 256 / kGroups;
  float wxq = 0, wqq = 0;
  for (int g = 0; g < kGroups; ++g) {
    const float scale = chosen.scale(g);
    if (std::fabs(scale) < kTiny) continue;
    const auto multiple = static_cast<float>(chosen.multiple[static_cast<size_t>(g)]);
    const ScaleFit fit = fit_at(levels, 1.0f / scale, x + g * kWidth, w + g * kWidth, kWidth);
    wxq += fit.scale * fit.curvature * multiple;
    wqq += fit.curvature * multiple * multiple;
  }
  return wqq > 0 ? wxq / wqq : 0.0f;
}

// Multiples are kLowest..kHighest.
template <int kGroups, int kLowest, int kHighest, class Levels>
GroupedScales<kGroups> fit_grouped_scales(const Levels& levels, const float* x, const float* w) {
  constexpr int kWidth = 256 / kGroups;
  float wanted[kGroups], curvature[kGroups];
  for (int g = 0; g < kGroups; ++g) {
    const ScaleFit fit = fit_scale(levels, x + g * kWidth, w + g * kWidth, kWidth);
    wanted[g] = fit.scale;
    curvature[g] = fit.curvature;
  }
  constexpr WholeLevels<kLowest, kHighest> multiples;
  const float d = fit_scale(multiples, wanted, curvature, kGroups).scale;
  auto best = choose_multiples<kGroups, kLowest, kHighest>(levels, d, wanted, x, w);
  const float again = refit_d(levels, best, x, w);
  if (again != 0) {
    const auto other = choose_multiples<kGroups, kLowest, kHighest>(levels, again, wanted, x, w);
    if (other.error < best.error) best = other;
  }
  return best;
}

}  // namespace bp::quantize
