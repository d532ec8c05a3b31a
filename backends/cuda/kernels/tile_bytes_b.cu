#include "backends/cuda/kernels/kernel_lists.hpp"
#include "backends/cuda/kernels/tile_bytes.cuh"

namespace bp::cuda {

ProductsKernel byte_tile_kernel_b(bp_dtype dtype) {
  switch (dtype) {
    BP_CUDA_PACKED_FORMATS_B(BP_CUDA_BYTE_TILE_CASE)
    default:
      return {};
  }
}

}  // namespace bp::cuda
