#include "backends/cuda/backend.hpp"

namespace {
constexpr bp_backend_factory kFactory = bp::backend_factory<bp::cuda::CudaBackend>();
}  // namespace

#ifndef BP_CUDA_PLUGIN_ID
#define BP_CUDA_PLUGIN_ID "cuda"
#endif

BP_PLUGIN(BP_CUDA_PLUGIN_ID, "0.1.0", {BP_BACKEND_ID, &kFactory});
