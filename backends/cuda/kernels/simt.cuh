#pragma once
// What every kernel file includes first: the CUDA language by nvcc, or by g++ with the emulator.
// Kernels take one struct by value and use shared memory by BP_DYNAMIC_SHARED or __shared__.

#if defined(__CUDACC__)
#include <cuda_runtime.h>
#define BP_DYNAMIC_SHARED(name) extern __shared__ __align__(128) uint8_t name[]
#define BP_UNROLL _Pragma("unroll")
#define BP_UNROLL_BY(n) BP_PRAGMA(unroll n)
#define BP_PRAGMA(words) _Pragma(#words)
#define BP_NO_UNROLL _Pragma("unroll 1")
#else
#define BP_UNROLL
#define BP_UNROLL_BY(n)
#define BP_NO_UNROLL
#include "backends/cuda/emulator/simt.hpp"
#endif

#include <cstdint>

namespace bp::cuda {

inline constexpr uint32_t kWarp = 32;
inline constexpr uint32_t kAllLanes = 0xffffffffu;

// Launches overlap from compute capability 9.0 on: one may begin once all blocks of the one before
// have come to let_next_begin, and goes ahead of it until it waits. Every thread of every kernel
// waits before it reads what a launch writes, or writes anything; only weights and what the host
// has put there may be read earlier. The emulator tells of threads that never wait.
__device__ __forceinline__ void let_next_begin() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
// Until all launches before are done and their results are seen.
__device__ __forceinline__ void wait_for_launches_before() {
#if !defined(__CUDACC__)
  emulator::Block::current().come_in_order();
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
__device__ __forceinline__ void begin_in_order() {
  let_next_begin();
  wait_for_launches_before();
}

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
// The sum of all lanes' sums[index_of_sum<kSums>()], to the last bit what warp_sum gives for it, by
// kSums - 1 + log2(32 / kSums) exchanges.
template <uint32_t kSums>
__device__ __forceinline__ float warp_sums(float (&sums)[kSums]) {
  static_assert(kSums > 0 && kSums <= kWarp && (kSums & (kSums - 1)) == 0);
  uint32_t mask = kWarp / 2;
  // A lane keeps half of its sums and gives the other half to its partner.
  BP_UNROLL
  for (uint32_t n = kSums / 2; n > 0; n /= 2) {
    const bool is_upper = (lane_index() & mask) != 0;
    BP_UNROLL
    for (uint32_t i = 0; i < n; ++i) {
      const float given = is_upper ? sums[i] : sums[i + n];
      const float kept = is_upper ? sums[i + n] : sums[i];
      sums[i] = kept + __shfl_xor_sync(kAllLanes, given, static_cast<int>(mask));
    }
    mask /= 2;
  }
  float sum = sums[0];
  for (; mask > 0; mask /= 2) sum += __shfl_xor_sync(kAllLanes, sum, static_cast<int>(mask));
  return sum;
}
// Whose sum warp_sums has left in this lane.
template <uint32_t kSums>
__device__ __forceinline__ uint32_t index_of_sum() {
  return lane_index() / (kWarp / kSums);
}

// The sum of the lanes before this one, and of all.
struct Scan {
  uint32_t before, total;
};
__device__ __forceinline__ Scan scan_warp(uint32_t x) {
  uint32_t until = x;
  for (uint32_t d = 1; d < kWarp; d *= 2) {
    const uint32_t below = __shfl_up_sync(kAllLanes, until, d);
    if (lane_index() >= d) until += below;
  }
  return {until - x, __shfl_sync(kAllLanes, until, kWarp - 1)};
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
