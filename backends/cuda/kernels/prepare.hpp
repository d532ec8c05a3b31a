#pragma once
// What comes before a product: x in the form that its kernel takes.

#include "backends/cuda/kernels/elementwise.hpp"
#include "backends/cuda/kernels/product.hpp"

namespace bp::cuda {

// The rows, or the n_parts parts of each, in another form. x is a alone, or a and b combined.
struct PrepareParams {
  ElementwiseParams x;
  PreparedRows out;
  float* scales = nullptr;  // of rows of 8-bit floats
  XForm form = XForm::kBf16;
  uint32_t n_rows = 0;
  uint32_t n_parts = 1;
  uint32_t n_in = 0;  // columns of a part
};
[[nodiscard]] inline Geometry prepare_geometry(const PrepareParams& p) {
  return {{p.n_rows * p.n_parts, divide_up(round_up(p.n_in, kTileDepth), 128 * 16), 1}, 128, 0};
}
[[nodiscard]] Kernel<PrepareParams> prepare_kernel();  // all forms but 8-bit floats
[[nodiscard]] inline Geometry prepare_fp8_geometry(const PrepareParams& p) {
  return {{p.n_rows, 1, 1}, 256, 0};
}
[[nodiscard]] Kernel<PrepareParams> prepare_fp8_kernel();  // of rows in one part

}  // namespace bp::cuda
