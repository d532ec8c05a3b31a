#pragma once
// route and group_sum; the products of experts are in product.hpp.

#include "backends/cuda/device/device.hpp"
#include "backends/cuda/kernels/product.hpp"
#include "backends/cuda/kernels/views.hpp"

namespace bp::cuda {

inline constexpr uint32_t kMaxExperts = 2048;

// The n_used experts of a row's highest score + bias, and their shares; see the op's spec.
struct RouteParams {
  Rows logits, ids, shares;
  const float* bias = nullptr;  // [n_experts], or null
  uint32_t n_rows = 0;
  uint32_t n_experts = 0;
  uint32_t scoring = 0;  // BP_ROUTE_*
  uint32_t n_used = 0;
  uint32_t n_groups = 0;  // 0 or 1: none
  uint32_t n_groups_used = 0;
  uint32_t group_best = 1;
  uint32_t normalise = 0;
  float scale = 1;
};

// A warp for each row. Of the experts: scores, and what they are chosen by; of the groups: sums.
[[nodiscard]] inline Geometry route_geometry(const RouteParams& p) {
  const uint32_t n_doubles = 2 * p.n_experts + p.n_groups;
  return {{p.n_rows, 1, 1}, 32, n_doubles * 8};
}
[[nodiscard]] Kernel<RouteParams> route_kernel();

// y[r] = the sum over groups g of shares[r][g] * x[r]'s part g.
struct GroupSumParams {
  Rows x, shares, y;
  uint32_t n_rows = 0;
  uint32_t n_groups = 0;
  uint32_t width = 0;  // of y
};

[[nodiscard]] inline Geometry group_sum_geometry(const GroupSumParams& p) {
  return {{p.n_rows, divide_up(p.width, 256), 1}, 256, 0};
}
[[nodiscard]] Kernel<GroupSumParams> group_sum_kernel();

// Pairs of a row and one of its groups, by the matrix that multiplies them: see TilesOfPairs.
struct SortPairsParams {
  Rows ids;  // or null: group g is by matrix g
  uint32_t n_rows = 0;
  uint32_t n_groups = 0;
  uint32_t n_matrices = 0;  // at most kMaxExperts
  uint32_t* pairs = nullptr;
  uint32_t* matrices = nullptr;
  uint32_t* first = nullptr;
  uint32_t* end = nullptr;
};

// Every matrix may have a tile that is not full.
[[nodiscard]] constexpr uint32_t tiles_of_pairs(uint32_t n_pairs, uint32_t n_matrices) {
  return divide_up(n_pairs, kTileRows) + n_matrices;
}
// One block. Of the matrices: places of their pairs, and their first tiles.
[[nodiscard]] inline Geometry sort_pairs_geometry(const SortPairsParams& p) {
  return {{1, 1, 1}, 1024, 2 * p.n_matrices * 4};
}
[[nodiscard]] Kernel<SortPairsParams> sort_pairs_kernel();

}  // namespace bp::cuda
