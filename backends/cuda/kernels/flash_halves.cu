#include "backends/cuda/kernels/flash.cuh"
#include "backends/cuda/kernels/kernel_lists.hpp"

namespace bp::cuda {

Kernel<AttendParams> flash_kernel_of_halves(const AttendParams& p) {
  switch (p.k.dtype) {
    BP_CUDA_FLASH_CASE(F16)
    BP_CUDA_FLASH_CASE(BF16)
    default:
      return {};
  }
}

}  // namespace bp::cuda
