#include "backends/cuda/kernels/formats/families.hpp"
#include "backends/cuda/kernels/kernel_lists.hpp"
#include "backends/cuda/kernels/tile_halves.cuh"

namespace bp::cuda {

namespace {

__global__ void __launch_bounds__(256) fold_partials(const __grid_constant__ ProductsParams all) {
  begin_in_order();
  const PartOfBlock part_of_all = part_of_block(all, blockIdx.x);
  const ProductParams& p = part_of_all.p;
  const uint32_t column = part_of_all.block * 256 + threadIdx.x;
  if (column >= p.n_columns) return;
  for (uint32_t row = blockIdx.y; row < p.n_rows; row += gridDim.y) {
    float& y = p.y.data[static_cast<uint64_t>(row) * p.y.stride + column];
    float sum = 0;
    for (uint32_t s = 0; s < p.n_splits; ++s) {
      const uint64_t partial_row = static_cast<uint64_t>(s) * p.n_rows + row;
      sum += p.n_splits == 1 ? y : p.partials[partial_row * p.n_columns + column];
    }
    if (p.row_scales != nullptr) sum *= p.row_scales[row];
    y = finish(p.epilogue, sum, column);
  }
}

}  // namespace

ProductsKernel fold_kernel() {
  return {"fold_partials", fold_partials};
}

ProductsKernel tile_kernel_of_floats(bp_dtype dtype) {
  switch (dtype) {
    BP_CUDA_TILE_CASE(BF16)
    BP_CUDA_TILE_CASE(F16)
    BP_CUDA_TILE_CASE(F8_E4M3)
    BP_CUDA_TILE_CASE(F8_E5M2)
    default:
      return {};
  }
}

}  // namespace bp::cuda
