#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include "backplane/status.hpp"

namespace bp::cuda {

// device_error, or OK for cudaSuccess.
[[nodiscard]] Status cuda_status(cudaError_t error, const std::string& call);

}  // namespace bp::cuda

// BP_CUDA(cudaMalloc(&p, n)): returns the error from the enclosing function.
#define BP_CUDA(call) BP_TRY(::bp::cuda::cuda_status((call), #call))
