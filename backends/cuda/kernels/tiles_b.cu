#include "backends/cuda/kernels/formats/families.hpp"
#include "backends/cuda/kernels/kernel_lists.hpp"
#include "backends/cuda/kernels/tile_halves.cuh"

namespace bp::cuda {

ProductsKernel tile_kernel_b(bp_dtype dtype) {
  switch (dtype) {
    BP_CUDA_PACKED_FORMATS_B(BP_CUDA_TILE_CASE)
    default:
      return {};
  }
}

}  // namespace bp::cuda
