#include "mass_edge.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "backplane/softmax.hpp"

namespace bp::samplers {

namespace {

using Thresholds = std::array<float, kThresholds>;

// By the bits of floats, so that their ratios are about the same.
Thresholds spread(float low, float high) {
  const auto first = std::bit_cast<uint32_t>(low), last = std::bit_cast<uint32_t>(high);
  const auto step = (last - first) / static_cast<uint32_t>(kThresholds + 1);
  Thresholds all;
  for (uint32_t t = 0; t < kThresholds; ++t) all[t] = std::bit_cast<float>(first + (t + 1) * step);
  return all;
}

// About so far from low to high.
Thresholds within(Edge edge, double part) {
  constexpr float kOffsets[kThresholds] = {-0.06f, -0.02f, 0.02f, 0.06f};
  Thresholds all;
  for (size_t t = 0; t < kThresholds; ++t) {
    const float x = std::clamp(static_cast<float>(part) + kOffsets[t], 0.0f, 1.0f);
    all[t] = edge.low + (edge.high - edge.low) * x;
  }
  return all;
}

}  // namespace

Edge find_edge(std::span<const float> weights, double mass) {
  constexpr double kMargin = 2e-5;    // of what rounding takes from sums_from
  constexpr double kFew = 128;        // weights to be put in order
  constexpr int kMostPasses = 14;     // the bits of a float, and a little more
  constexpr float kUsual = 0x1p-20f;  // the edge is mostly above it
  mass = std::max(mass, std::numeric_limits<double>::min());
  Edge edge{std::numeric_limits<float>::min(), std::nextafter(1.0f, 2.0f)};
  double sum_low = std::numeric_limits<double>::infinity(), sum_high = 0;
  Thresholds least = spread(kUsual, edge.high);
  for (int pass = 0; pass < kMostPasses; ++pass) {
    double sums[kThresholds];
    sums_from(weights, least, sums);
    for (size_t t = 0; t < kThresholds; ++t) {
      if (sums[t] >= mass * (1 + kMargin) && least[t] > edge.low) {
        edge.low = least[t];
        sum_low = sums[t];
      }
    }
    for (size_t t = kThresholds; t-- > 0;) {
      if (sums[t] < mass * (1 - kMargin) && least[t] < edge.high) {
        edge.high = least[t];
        sum_high = sums[t];
      }
    }
    if (sum_low - sum_high <= kFew * static_cast<double>(edge.low)) break;
    const bool is_between = std::isfinite(sum_low) && sum_high > 0;
    if (is_between && pass % 2 == 0) {  // the weights between the two mostly lie evenly
      least = within(edge, (sum_low - mass) / (sum_low - sum_high));
    } else {
      least = spread(std::max(edge.low, pass == 0 ? kUsual : 0.0f), edge.high);
    }
    if (least.front() == least.back()) break;
  }
  return edge;
}

}  // namespace bp::samplers
