#pragma once
// Which experts a token goes to: the rule of the op `route` for one row.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "backplane/ops.h"

namespace bp::reference {

namespace detail {

// Its highest n first, the lower index first among equals; NaN comes last.
inline std::vector<uint32_t> highest(const std::vector<double>& values, uint32_t n) {
  std::vector<uint32_t> order(values.size());
  std::iota(order.begin(), order.end(), 0u);
  const auto before = [&](uint32_t a, uint32_t b) {
    const bool a_nan = std::isnan(values[a]), b_nan = std::isnan(values[b]);
    if (a_nan || b_nan) return a_nan == b_nan ? a < b : b_nan;
    return values[a] != values[b] ? values[a] > values[b] : a < b;
  };
  std::partial_sort(order.begin(), order.begin() + n, order.end(), before);
  order.resize(n);
  return order;
}

inline void softmax(std::vector<double>& values) {
  const double top = *std::max_element(values.begin(), values.end());
  double sum = 0;
  for (double& v : values) sum += v = std::exp(v - top);
  for (double& v : values) v /= sum;
}

// Experts outside of the best groups can no longer be chosen.
inline void keep_groups(const bp_attr_route& a, std::vector<double>& choice) {
  const size_t size = choice.size() / a.n_groups;
  std::vector<double> sums(a.n_groups);
  for (uint32_t g = 0; g < a.n_groups; ++g) {
    const auto first = choice.begin() + static_cast<std::ptrdiff_t>(g * size);
    const std::vector<double> group(first, first + static_cast<std::ptrdiff_t>(size));
    for (const uint32_t i : highest(group, a.group_best)) sums[g] += group[i];
  }
  std::vector<bool> kept(a.n_groups);
  for (const uint32_t g : highest(sums, a.n_groups_used)) kept[g] = true;
  for (size_t i = 0; i < choice.size(); ++i) {
    if (!kept[i / size]) choice[i] = -std::numeric_limits<double>::infinity();
  }
}

}  // namespace detail

// ids and shares [n_used] of logits [n_experts]; bias [n_experts] may be null. The attributes have
// passed validation.
inline void route(const bp_attr_route& a, const float* logits, const float* bias,
                  uint32_t n_experts, float* ids, float* shares) {
  std::vector<double> scores(logits, logits + n_experts);
  if (a.scoring == BP_ROUTE_SOFTMAX) detail::softmax(scores);
  if (a.scoring == BP_ROUTE_SIGMOID) {
    for (double& score : scores) score = 1 / (1 + std::exp(-score));
  }
  std::vector<double> choice = scores;
  for (uint32_t e = 0; bias != nullptr && e < n_experts; ++e) choice[e] += double{bias[e]};
  if (a.n_groups > 1) detail::keep_groups(a, choice);
  const auto chosen = detail::highest(choice, a.n_used);
  std::vector<double> share;
  for (const uint32_t e : chosen) share.push_back(scores[e]);
  if (a.scoring == BP_ROUTE_SELECTED) detail::softmax(share);
  const double sum = a.normalise != 0 ? std::accumulate(share.begin(), share.end(), 0.0) : 1.0;
  for (uint32_t i = 0; i < a.n_used; ++i) {
    ids[i] = static_cast<float>(chosen[i]);
    shares[i] = static_cast<float>(share[i] / sum * double{a.scale});
  }
}

// The matrix that an id of group_matmul means.
[[nodiscard]] inline uint64_t matrix_of_id(float id, uint64_t n_matrices) {
  if (!(id > 0)) return 0;
  const auto last = static_cast<double>(n_matrices - 1);
  return static_cast<uint64_t>(std::min(static_cast<double>(id), last));
}

}  // namespace bp::reference
