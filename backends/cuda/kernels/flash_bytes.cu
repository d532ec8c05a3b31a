#include "backends/cuda/kernels/flash.cuh"
#include "backends/cuda/kernels/kernel_lists.hpp"

namespace bp::cuda {

Kernel<AttendParams> flash_kernel_of_bytes(const AttendParams& p) {
  const auto kernel = flash_kernel_of<BP_DTYPE_F8_E4M3, BP_DTYPE_F8_E4M3>(p, "flash_F8_E4M3");
  if (kernel.function != nullptr) return kernel;
  return flash_kernel_of<BP_DTYPE_Q8_0, BP_DTYPE_Q8_0>(p, "flash_Q8_0");
}

}  // namespace bp::cuda
