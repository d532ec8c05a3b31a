#pragma once
// Ops that move columns or rows: slice, slice_groups, concat_groups, select_rows.

#include "backends/cuda/device/device.hpp"
#include "backends/cuda/kernels/views.hpp"

namespace bp::cuda {

// For each of n_groups groups, y's columns [g * y_part + y_first, ... + n) are x's columns
// [g * x_part + x_first, ...). With output, row r of y is row output_rows[output][r] of x.
struct ColumnsParams {
  Rows x, y;
  const StepView* step = nullptr;  // where rows are chosen, else null
  uint32_t output = 0;
  uint32_t n_rows = 0;
  uint32_t n_groups = 1;
  uint32_t n = 0;
  uint32_t x_part = 0, x_first = 0;  // x_part is 0 where all groups read the same
  uint32_t y_part = 0, y_first = 0;
};

[[nodiscard]] inline Geometry columns_geometry(const ColumnsParams& p) {
  return {{p.n_rows, divide_up(p.n_groups * p.n, 1024), 1}, 256, 0};
}
[[nodiscard]] Kernel<ColumnsParams> columns_kernel();

}  // namespace bp::cuda
