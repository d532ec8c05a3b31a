#pragma once
// What every kernel file includes first: the CUDA language by nvcc, or by g++ with the emulator.
// Kernels take one struct by value and use shared memory by BP_DYNAMIC_SHARED or __shared__.

#if defined(__CUDACC__)
#include <cuda_runtime.h>
#define BP_DYNAMIC_SHARED(name) extern __shared__ __align__(128) uint8_t name[]
#else
#include "backends/cuda/emulator/simt.hpp"
#endif

#include <cstdint>

namespace bp::cuda {

inline constexpr uint32_t kWarp = 32;
inline constexpr uint32_t kAllLanes = 0xffffffffu;

__device__ __forceinline__ uint32_t lane_index() {
  return threadIdx.x % kWarp;
}
__device__ __forceinline__ uint32_t warp_index() {
  return threadIdx.x / kWarp;
}

// Every lane gets the sum of all lanes, added in the same order whatever the launch.
__device__ __forceinline__ float warp_sum(float x) {
  for (int mask = 16; mask > 0; mask /= 2) x += __shfl_xor_sync(kAllLanes, x, mask);
  return x;
}
// A NaN is passed over.
__device__ __forceinline__ float warp_max(float x) {
  for (int mask = 16; mask > 0; mask /= 2) x = fmaxf(x, __shfl_xor_sync(kAllLanes, x, mask));
  return x;
}

// The sum over a block of whole warps, for every thread; scratch has a float for each warp. Ends
// with all threads past their use of the scratch of an earlier call.
__device__ __forceinline__ float block_sum(float x, float* scratch) {
  x = warp_sum(x);
  const uint32_t n_warps = blockDim.x / kWarp;
  if (n_warps == 1) return x;
  __syncthreads();
  if (lane_index() == 0) scratch[warp_index()] = x;
  __syncthreads();
  float sum = 0;
  for (uint32_t w = 0; w < n_warps; ++w) sum += scratch[w];
  return sum;
}

}  // namespace bp::cuda
