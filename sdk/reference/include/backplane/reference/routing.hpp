#pragma once
// Which experts a token goes to: the rule of the op `route` for one row.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <vector>

#include "backplane/ops.h"

namespace bp::reference {

// Memory for routing a row, kept from one to the next: it grows with the first.
struct RouteRoom {
  std::vector<double> scores, choice, sums, share;
  std::vector<uint32_t> order;
};

namespace detail {

// Its highest n first, the lower index first among equals; NaN comes last. Until the next call.
inline std::span<const uint32_t> highest(std::span<const double> values, uint32_t n,
                                         std::vector<uint32_t>& order) {
  order.resize(values.size());
  std::iota(order.begin(), order.end(), 0u);
  const auto before = [&](uint32_t a, uint32_t b) {
    const bool a_nan = std::isnan(values[a]), b_nan = std::isnan(values[b]);
    if (a_nan || b_nan) return a_nan == b_nan ? a < b : b_nan;
    return values[a] != values[b] ? values[a] > values[b] : a < b;
  };
  std::partial_sort(order.begin(), order.begin() + n, order.end(), before);
  return std::span(order).first(n);
}

inline void softmax(std::span<double> values) {
  const double top = *std::max_element(values.begin(), values.end());
  double sum = 0;
  for (double& v : values) sum += v = std::exp(v - top);
  for (double& v : values) v /= sum;
}

// Experts outside of the best groups can no longer be chosen.
inline void keep_groups(const bp_attr_route& a, RouteRoom& room) {
  std::span<double> choice = room.choice;
  const size_t size = choice.size() / a.n_groups;
  room.sums.assign(a.n_groups, 0.0);
  for (uint32_t g = 0; g < a.n_groups; ++g) {
    const auto group = choice.subspan(g * size, size);
    for (const uint32_t i : highest(group, a.group_best, room.order)) room.sums[g] += group[i];
  }
  const auto kept = highest(room.sums, a.n_groups_used, room.order);
  for (uint32_t g = 0; g < a.n_groups; ++g) {
    if (std::find(kept.begin(), kept.end(), g) != kept.end()) continue;
    const auto group = choice.subspan(g * size, size);
    std::fill(group.begin(), group.end(), -std::numeric_limits<double>::infinity());
  }
}

}  // namespace detail

// ids and shares [n_used] of logits [n_experts]; bias [n_experts] may be null. The attributes have
// passed validation.
inline void route(const bp_attr_route& a, const float* logits, const float* bias,
                  uint32_t n_experts, RouteRoom& room, float* ids, float* shares) {
  room.scores.assign(logits, logits + n_experts);
  if (a.scoring == BP_ROUTE_SOFTMAX) detail::softmax(room.scores);
  if (a.scoring == BP_ROUTE_SIGMOID) {
    for (double& score : room.scores) score = 1 / (1 + std::exp(-score));
  }
  room.choice = room.scores;
  for (uint32_t e = 0; bias != nullptr && e < n_experts; ++e) room.choice[e] += double{bias[e]};
  if (a.n_groups > 1) detail::keep_groups(a, room);
  const auto chosen = detail::highest(room.choice, a.n_used, room.order);
  room.share.clear();
  for (const uint32_t e : chosen) room.share.push_back(room.scores[e]);
  if (a.scoring == BP_ROUTE_SELECTED) detail::softmax(room.share);
  const double sum =
      a.normalise != 0 ? std::accumulate(room.share.begin(), room.share.end(), 0.0) : 1.0;
  for (uint32_t i = 0; i < a.n_used; ++i) {
    ids[i] = static_cast<float>(chosen[i]);
    shares[i] = static_cast<float>(room.share[i] / sum * double{a.scale});
  }
}

// The matrix that an id of group_matmul means.
[[nodiscard]] inline uint64_t matrix_of_id(float id, uint64_t n_matrices) {
  if (!(id > 0)) return 0;
  const auto last = static_cast<double>(n_matrices - 1);
  return static_cast<uint64_t>(std::min(static_cast<double>(id), last));
}

}  // namespace bp::reference
