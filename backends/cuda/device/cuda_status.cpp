#include "backends/cuda/device/cuda_status.hpp"

#include "backends/cuda/device/device_error.hpp"

namespace bp::cuda {

Status cuda_status(cudaError_t error, const char* call, const char* name) {
  if (error == cudaSuccess) return {};
  // A failed call must not be reported again by a later one.
  static_cast<void>(cudaGetLastError());
  return device_error(std::string(call) + name, cudaGetErrorName(error), cudaGetErrorString(error));
}

}  // namespace bp::cuda
