#pragma once
// What the threads of a block find together: sums up to each of them, the first or last that
// qualifies, and the greatest of many keys.

#include "backends/cuda/kernels/sample.hpp"
#include "backends/cuda/kernels/simt.cuh"

namespace bp::cuda {

inline constexpr uint32_t kSampleWarps = kSampleThreads / kWarp;

// A float in the order of integers, -0 as 0.
__device__ __forceinline__ uint32_t ordered_bits(float x) {
  const uint32_t bits = __float_as_uint(x == 0 ? 0.0f : x);
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}
// Greater for better candidates; 0 for what is none.
__device__ __forceinline__ uint64_t key_of(float logit, uint32_t id) {
  if (!(logit > -INFINITY)) return 0;
  return static_cast<uint64_t>(ordered_bits(logit)) << 32 | static_cast<uint32_t>(~id);
}
__device__ __forceinline__ uint32_t id_of(uint64_t key) {
  return ~static_cast<uint32_t>(key);
}

template <class T>
struct Running {
  T before, total;
};
// Sums over the threads of a block in their order. scratch has a T for each warp and may be used
// again after the next barrier.
template <class T>
__device__ __forceinline__ Running<T> block_running(T x, T* scratch) {
  T until = x;
  for (uint32_t d = 1; d < kWarp; d *= 2) {
    const T below = __shfl_up_sync(kAllLanes, until, d);
    if (lane_index() >= d) until += below;
  }
  T before = __shfl_up_sync(kAllLanes, until, 1);
  if (lane_index() == 0) before = 0;
  __syncthreads();
  if (lane_index() == kWarp - 1) scratch[warp_index()] = until;
  __syncthreads();
  T total = 0;
  for (uint32_t w = 0; w < kSampleWarps; ++w) {
    if (w == warp_index()) before += total;
    total += scratch[w];
  }
  return {before, total};
}

// The least x of a block.
__device__ __forceinline__ uint32_t block_least(uint32_t x, uint32_t* scratch) {
  for (int mask = 16; mask > 0; mask /= 2) x = min(x, __shfl_xor_sync(kAllLanes, x, mask));
  __syncthreads();
  if (lane_index() == 0) scratch[warp_index()] = x;
  __syncthreads();
  uint32_t least = scratch[0];
  for (uint32_t w = 1; w < kSampleWarps; ++w) least = min(least, scratch[w]);
  return least;
}

// The first thread at which the running sum exceeds `target`, or the last with x above 0 where
// rounding leaves the sum short of it; blockDim.x where there is none.
__device__ __forceinline__ uint32_t thread_at(double target, double x, double before,
                                              uint32_t* scratch) {
  const uint32_t i = threadIdx.x;
  const uint32_t first = block_least(x > 0 && before + x > target ? i : blockDim.x, scratch);
  const uint32_t last = block_least(x > 0 ? blockDim.x - 1 - i : blockDim.x, scratch);
  if (first < blockDim.x || last == blockDim.x) return first;
  return blockDim.x - 1 - last;
}

struct SelectRoom {
  static constexpr uint32_t kDigits = 2048;
  uint32_t histogram[kDigits];
  uint32_t scratch[kSampleWarps];
  uint32_t digit, above, at_digit;  // where the count reaches k
  uint32_t n_found;
};

// The greatest T such that at least k of the keys are T or more, or 1 where fewer are above 0.
// Radix selection from the highest digit on; ends as soon as a digit's keys are all wanted.
template <class KeyAt>
__device__ uint64_t threshold_of(KeyAt key_at, uint32_t n, uint32_t k, SelectRoom& room) {
  constexpr uint32_t kPerThread = SelectRoom::kDigits / kSampleThreads;
  constexpr int kWidth = 11;
  uint64_t prefix = 0, decided = 0;
  uint32_t need = k;
  for (int shift = 64 - kWidth;; shift -= kWidth) {
    const uint32_t low = shift > 0 ? static_cast<uint32_t>(shift) : 0;
    __syncthreads();
    for (uint32_t b = threadIdx.x; b < SelectRoom::kDigits; b += kSampleThreads) {
      room.histogram[b] = 0;
    }
    if (threadIdx.x == 0) room.digit = SelectRoom::kDigits;
    __syncthreads();
    const uint64_t mask = (SelectRoom::kDigits - 1ull) << low;
    for (uint32_t i = threadIdx.x; i < n; i += kSampleThreads) {
      const uint64_t key = key_at(i);
      if (key == 0 || (key & decided) != prefix) continue;
      atomicAdd(&room.histogram[static_cast<uint32_t>((key & mask & ~decided) >> low)], 1u);
    }
    __syncthreads();
    // Thread 0 has the greatest digits.
    const uint32_t end = SelectRoom::kDigits - threadIdx.x * kPerThread;
    uint32_t own = 0;
    for (uint32_t b = end - kPerThread; b < end; ++b) own += room.histogram[b];
    uint32_t above = block_running(own, room.scratch).before;
    if (above < need && above + own >= need) {
      uint32_t b = end - 1;
      while (above + room.histogram[b] < need) above += room.histogram[b--];
      room.digit = b;
      room.above = above;
      room.at_digit = room.histogram[b];
    }
    __syncthreads();
    if (room.digit == SelectRoom::kDigits) return 1;  // fewer keys than k, known at the first digit
    prefix |= static_cast<uint64_t>(room.digit) << low;
    decided |= mask;
    need -= room.above;
    if (room.at_digit == need || low == 0) return prefix;
  }
}

// The k greatest of n keys that differ or are 0, in any order, to `out` [k]; those that there are
// not become 0. Returns how many there are.
template <class KeyAt>
__device__ uint32_t select_greatest(KeyAt key_at, uint32_t n, uint32_t k, uint64_t* out,
                                    SelectRoom& room) {
  const uint64_t threshold = threshold_of(key_at, n, k, room);
  __syncthreads();
  if (threadIdx.x == 0) room.n_found = 0;
  __syncthreads();
  for (uint32_t i = threadIdx.x; i < n; i += kSampleThreads) {
    const uint64_t key = key_at(i);
    if (key >= threshold) out[atomicAdd(&room.n_found, 1u)] = key;
  }
  __syncthreads();
  const uint32_t n_found = room.n_found;
  for (uint32_t i = n_found + threadIdx.x; i < k; i += kSampleThreads) out[i] = 0;
  __syncthreads();
  return n_found;
}

// Bitonic: descending, keys [kSampleThreads] in shared memory.
__device__ __forceinline__ void sort_descending(uint64_t* keys) {
  const uint32_t i = threadIdx.x;
  for (uint32_t size = 2; size <= kSampleThreads; size *= 2) {
    for (uint32_t step = size / 2; step > 0; step /= 2) {
      __syncthreads();
      const uint32_t other = i ^ step;
      const uint64_t a = keys[i], b = keys[other];
      __syncthreads();
      const bool keeps_greater = ((i & size) == 0) == (i < other);
      keys[i] = keeps_greater == (a > b) ? a : b;
    }
  }
  __syncthreads();
}

}  // namespace bp::cuda
