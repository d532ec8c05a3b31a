#include "backends/cuda/kernels/flash.cuh"
#include "backends/cuda/kernels/kernel_lists.hpp"

namespace bp::cuda {

Kernel<AttendParams> flash_kernel_of_mixed(const AttendParams& p) {
  for (const auto& kernel : {
           flash_kernel_of<BP_DTYPE_F16, BP_DTYPE_F8_E4M3>(p, "flash_F16_F8_E4M3"),
           flash_kernel_of<BP_DTYPE_F16, BP_DTYPE_Q8_0>(p, "flash_F16_Q8_0"),
           flash_kernel_of<BP_DTYPE_BF16, BP_DTYPE_F8_E4M3>(p, "flash_BF16_F8_E4M3"),
           flash_kernel_of<BP_DTYPE_BF16, BP_DTYPE_Q8_0>(p, "flash_BF16_Q8_0"),
       }) {
    if (kernel.function != nullptr) return kernel;
  }
  return {};
}

}  // namespace bp::cuda
