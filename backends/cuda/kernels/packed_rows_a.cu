#include "backends/cuda/kernels/kernel_lists.hpp"
#include "backends/cuda/kernels/packed_rows.cuh"

namespace bp::cuda {

ProductsKernel packed_rows_kernel_a(bp_dtype dtype, uint32_t n_rows) {
  switch (dtype) {
    BP_CUDA_PACKED_FORMATS_A(BP_CUDA_PACKED_ROWS_CASE)
    default:
      return {};
  }
}

}  // namespace bp::cuda
