#pragma once
// Rows times the rows of a weight: matmul, linear, qkv, lm_head, and by expert group_matmul and
// moe. These kernels take every type and any size; a row's result does not depend on the other
// rows.

#include "backends/cuda/device/device.hpp"
#include "backends/cuda/kernels/activation.hpp"
#include "backends/cuda/kernels/views.hpp"

namespace bp::cuda {

// y[r][c] = finish(x[r] . weight[first_column + c])
struct ProductParams {
  Matrix weight;
  Rows x, y;
  Epilogue epilogue;
  uint32_t n_rows = 0;
  uint32_t n_columns = 0;     // of y
  uint32_t first_column = 0;  // row of the weight that gives column 0
};

// Columns [g * n_columns, (g + 1) * n_columns) of y[r], for group g, are by matrix ids[r][g] of the
// weight, or by matrix g where ids is null; x[r] is the same for all groups, or has a part for
// each.
struct GroupProductParams {
  Matrix weight;  // n_matrices * n_columns rows
  Rows x, y;
  Rows ids;                     // whole numbers as floats; or null
  const float* bias = nullptr;  // [n_matrices, n_columns], or null
  uint32_t n_rows = 0;
  uint32_t n_columns = 0;  // of a matrix
  uint32_t n_groups = 0;
  uint32_t n_matrices = 0;
  uint32_t x_is_shared = 0;
};

inline constexpr uint32_t kProductWarps = 4;  // of a block; a warp computes one column

// Rows of y that share one reading of the weight.
[[nodiscard]] constexpr uint32_t product_rows_together(uint32_t n_rows) {
  return n_rows == 1 ? 1 : 8;
}
[[nodiscard]] inline Geometry product_geometry(const ProductParams& p) {
  return {{divide_up(p.n_columns, kProductWarps),
           divide_up(p.n_rows, product_rows_together(p.n_rows)), 1},
          kProductWarps * 32,
          0};
}
[[nodiscard]] inline Geometry group_product_geometry(const GroupProductParams& p) {
  return {{p.n_rows * p.n_groups, divide_up(p.n_columns, kProductWarps), 1}, kProductWarps * 32, 0};
}

// Null functions for a dtype that no weight may have.
[[nodiscard]] Kernel<ProductParams> product_kernel(bp_dtype dtype, uint32_t n_rows);
[[nodiscard]] Kernel<GroupProductParams> group_product_kernel(bp_dtype dtype);

}  // namespace bp::cuda
