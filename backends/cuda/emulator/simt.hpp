#pragma once
// The CUDA language for g++: what kernels/ uses of it, as the current thread of an emulated block.
// kernels/simt.cuh includes it in place of the CUDA runtime's headers; nothing else does.

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "backends/cuda/emulator/block.hpp"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __restrict__ __restrict
#define __constant__ static const
#define __grid_constant__
#define __launch_bounds__(...)
// Of one block: blocks run one after another on a host thread.
#define __shared__ static thread_local

#define threadIdx (::bp::cuda::emulator::Block::current().thread_index())
#define blockIdx (::bp::cuda::emulator::Block::current().block_index())
#define blockDim (::bp::cuda::emulator::Block::current().block_size())
#define gridDim (::bp::cuda::emulator::Block::current().grid_size())

// The shared memory sized at launch.
#define BP_DYNAMIC_SHARED(name) \
  uint8_t* const name = ::bp::cuda::emulator::Block::current().shared()

struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) uint4 {
  uint32_t x, y, z, w;
};
struct alignas(8) uint2 {
  uint32_t x, y;
};

namespace bp::cuda::emulator {

inline void nothing(void* const*, uint32_t) {}

template <class T>
struct Exchange {
  T value;
  uint32_t source;  // lane
  T result;
};

// Every lane gets the value of its source, of a lane outside of the mask none that is defined.
template <class T>
void exchange(void* const* arguments, uint32_t) {
  for (uint32_t lane = 0; lane < kWarpSize; ++lane) {
    auto* own = static_cast<Exchange<T>*>(arguments[lane]);
    if (own == nullptr) continue;
    const auto* source = static_cast<Exchange<T>*>(arguments[own->source % kWarpSize]);
    if (source != nullptr) {
      own->result = source->value;
    } else {
      std::memset(&own->result, 0xff, sizeof own->result);
    }
  }
}

template <class T>
T shuffle(uint32_t mask, T value, uint32_t source) {
  Exchange<T> e{value, source, {}};
  Block::current().wait_for_warp(mask, "a shuffle", exchange<T>, &e);
  return e.result;
}

inline uint32_t ballot(uint32_t mask, bool vote) {
  struct Vote {
    bool own;
    uint32_t all;
  } v{vote, 0};
  Block::current().wait_for_warp(
      mask, "a vote",
      [](void* const* arguments, uint32_t m) {
        uint32_t all = 0;
        for (uint32_t lane = 0; lane < kWarpSize; ++lane) {
          if ((m >> lane & 1) != 0 && static_cast<Vote*>(arguments[lane])->own) all |= 1u << lane;
        }
        for (uint32_t lane = 0; lane < kWarpSize; ++lane) {
          if (arguments[lane] != nullptr) static_cast<Vote*>(arguments[lane])->all = all;
        }
      },
      &v);
  return v.all;
}

}  // namespace bp::cuda::emulator

inline void __syncthreads() {
  ::bp::cuda::emulator::Block::current().wait_for_block();
}
inline void __syncwarp(uint32_t mask = 0xffffffffu) {
  ::bp::cuda::emulator::Block::current().wait_for_warp(mask, "__syncwarp",
                                                       ::bp::cuda::emulator::nothing, nullptr);
}
inline void __threadfence() {}

template <class T>
T __shfl_sync(uint32_t mask, T value, int source, int width = 32) {
  const uint32_t lane = ::bp::cuda::emulator::Block::current().lane();
  const auto w = static_cast<uint32_t>(width);
  return ::bp::cuda::emulator::shuffle(mask, value,
                                       lane / w * w + static_cast<uint32_t>(source) % w);
}
template <class T>
T __shfl_xor_sync(uint32_t mask, T value, int lane_mask, int = 32) {
  const uint32_t lane = ::bp::cuda::emulator::Block::current().lane();
  return ::bp::cuda::emulator::shuffle(mask, value, lane ^ static_cast<uint32_t>(lane_mask));
}
// Lanes without a source that far keep their own value.
template <class T>
T __shfl_down_sync(uint32_t mask, T value, uint32_t delta, int width = 32) {
  const uint32_t lane = ::bp::cuda::emulator::Block::current().lane();
  const auto w = static_cast<uint32_t>(width);
  return ::bp::cuda::emulator::shuffle(mask, value, lane % w + delta < w ? lane + delta : lane);
}
template <class T>
T __shfl_up_sync(uint32_t mask, T value, uint32_t delta, int width = 32) {
  const uint32_t lane = ::bp::cuda::emulator::Block::current().lane();
  const auto w = static_cast<uint32_t>(width);
  return ::bp::cuda::emulator::shuffle(mask, value, lane % w >= delta ? lane - delta : lane);
}
inline uint32_t __ballot_sync(uint32_t mask, bool vote) {
  return ::bp::cuda::emulator::ballot(mask, vote);
}
inline bool __any_sync(uint32_t mask, bool vote) {
  return __ballot_sync(mask, vote) != 0;
}
inline bool __all_sync(uint32_t mask, bool vote) {
  return __ballot_sync(mask, vote) == mask;
}

// Streams of several host threads may run at once.
template <class T>
T atomicAdd(T* at, T value) {
  return std::atomic_ref<T>(*at).fetch_add(value);
}
inline uint32_t atomicInc(uint32_t* at, uint32_t limit) {
  std::atomic_ref<uint32_t> ref(*at);
  uint32_t old = ref.load();
  while (!ref.compare_exchange_weak(old, old >= limit ? 0 : old + 1)) {
  }
  return old;
}
template <class T>
T atomicMax(T* at, T value) {
  std::atomic_ref<T> ref(*at);
  T old = ref.load();
  while (old < value && !ref.compare_exchange_weak(old, value)) {
  }
  return old;
}

template <class T>
T __ldg(const T* at) {
  return *at;
}
inline int __popc(uint32_t x) {
  return std::popcount(x);
}
inline int __ffs(uint32_t x) {
  return x == 0 ? 0 : std::countr_zero(x) + 1;
}
inline int __clz(uint32_t x) {
  return std::countl_zero(x);
}
inline float __uint_as_float(uint32_t x) {
  return std::bit_cast<float>(x);
}
inline uint32_t __float_as_uint(float x) {
  return std::bit_cast<uint32_t>(x);
}
inline float __expf(float x) {
  return std::exp(x);
}
inline float __fdividef(float a, float b) {
  return a / b;
}
inline float rsqrtf(float x) {
  return 1 / std::sqrt(x);
}
inline int __float2int_rn(float x) {
  return static_cast<int>(std::nearbyint(x));
}
// Products of four signed bytes each, added to c.
inline int __dp4a(int a, int b, int c) {
  for (int i = 0; i < 4; ++i) {
    c += static_cast<int8_t>(a >> (8 * i)) * static_cast<int8_t>(b >> (8 * i));
  }
  return c;
}
// Byte i of the result is the byte of (y, x) that nibble i of the selector names.
inline uint32_t __byte_perm(uint32_t x, uint32_t y, uint32_t selector) {
  const uint64_t bytes = uint64_t{y} << 32 | x;
  uint32_t result = 0;
  for (uint32_t i = 0; i < 4; ++i) {
    result |= static_cast<uint32_t>(bytes >> (8 * (selector >> (4 * i) & 7)) & 0xff) << (8 * i);
  }
  return result;
}
using std::max;
using std::min;
