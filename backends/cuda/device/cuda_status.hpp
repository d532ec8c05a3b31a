#pragma once

#include <cuda_runtime_api.h>

#include "backplane/status.hpp"

namespace bp::cuda {

// device_error of `call` with the name of what it was for behind it, or OK for cudaSuccess: that is
// told without an allocation, for calls in destructors and before every launch.
[[nodiscard]] Status cuda_status(cudaError_t error, const char* call, const char* name = "");

}  // namespace bp::cuda

// BP_CUDA(cudaMalloc(&p, n)): returns the error from the enclosing function.
#define BP_CUDA(call) BP_TRY(::bp::cuda::cuda_status((call), #call))
