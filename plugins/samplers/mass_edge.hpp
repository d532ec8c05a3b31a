#pragma once
// Which of many weights, greatest first, make up a given sum: found without putting them in order.

#include <span>

namespace bp::samplers {

// Weights from `high` on are within a mass, those below `low` beyond it; `low` is above 0.
struct Edge {
  float low, high;
};

// Where the weights of a row, greatest first, reach `mass`, at least one weight: found by sums from
// several thresholds at once, until little weighs between two of them. No weight is below 0 or
// above 1.
[[nodiscard]] Edge find_edge(std::span<const float> weights, double mass);

}  // namespace bp::samplers
