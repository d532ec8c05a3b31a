#pragma once
// norm, normalize, and the q and k norms of qkv.

#include "backends/cuda/device/device.hpp"
#include "backends/cuda/kernels/product.hpp"
#include "backends/cuda/kernels/views.hpp"

namespace bp::cuda {

// sum = x + residual; y = normalise(sum by groups of columns) * (weight + weight_offset) + bias.
struct NormParams {
  Rows x, residual, sum, y;       // residual and sum may be null; y and sum may be x
  const float* weight = nullptr;  // [n_weights] repeated along the row, or null
  const float* bias = nullptr;    // [n_biases]
  uint32_t n_rows = 0;
  uint32_t width = 0;
  uint32_t group = 0;  // columns normalised together; divides width
  uint32_t n_weights = 0, n_biases = 0;
  float eps = 0;
  float weight_offset = 0;
  uint32_t subtracts_mean = 0;
  // y once more in the form that the product after it takes; only of whole rows.
  XForm form = XForm::kFloats;
  PreparedRows prepared;
};

// Warps that share a group's columns; the order of its sums follows from it.
[[nodiscard]] constexpr uint32_t norm_warps(uint32_t group) {
  return group <= 128 ? 1 : group <= 1024 ? 4 : 8;
}
// Whether a thread keeps its columns in registers, four neighbours at a time: the rows of a model.
[[nodiscard]] bool is_wide(const NormParams& p);

// A block for each group of a row.
[[nodiscard]] Geometry norm_geometry(const NormParams& p);
[[nodiscard]] Kernel<NormParams> norm_kernel(const NormParams& p);

}  // namespace bp::cuda
