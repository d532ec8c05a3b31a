#include "backends/cuda/kernels/flash.cuh"
#include "backends/cuda/kernels/kernel_lists.hpp"

namespace bp::cuda {

Kernel<AttendParams> flash_kernel_of_bytes(const AttendParams& p) {
  switch (p.k.dtype) {
    BP_CUDA_FLASH_CASE(F8_E4M3)
    BP_CUDA_FLASH_CASE(Q8_0)
    default:
      return {};
  }
}

}  // namespace bp::cuda
