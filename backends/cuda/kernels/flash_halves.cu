#include "backends/cuda/kernels/flash.cuh"
#include "backends/cuda/kernels/kernel_lists.hpp"

namespace bp::cuda {

Kernel<AttendParams> flash_kernel_of_halves(const AttendParams& p) {
  const auto kernel = flash_kernel_of<BP_DTYPE_F16, BP_DTYPE_F16>(p, "flash_F16");
  if (kernel.function != nullptr) return kernel;
  return flash_kernel_of<BP_DTYPE_BF16, BP_DTYPE_BF16>(p, "flash_BF16");
}

}  // namespace bp::cuda
