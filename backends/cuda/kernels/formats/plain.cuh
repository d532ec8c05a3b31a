#pragma once

#include "backends/cuda/kernels/formats/format.cuh"

namespace bp::cuda {

template <>
struct Format<BP_DTYPE_F32> {
  BP_FORMAT_SIZES(8, 32);
  __device__ static void read(const uint8_t* block, uint32_t, const void*, Eight& out) {
    const auto* values = reinterpret_cast<const float4*>(block);
    const float4 a = values[0], b = values[1];
    out[0] = a.x, out[1] = a.y, out[2] = a.z, out[3] = a.w;
    out[4] = b.x, out[5] = b.y, out[6] = b.z, out[7] = b.w;
  }
};

// Four registers of two 16-bit floats each.
template <float (*kWiden)(uint16_t)>
__device__ __forceinline__ void widen_halves(const uint4& bits, Eight& out) {
  const uint32_t words[4] = {bits.x, bits.y, bits.z, bits.w};
  BP_UNROLL
  for (int i = 0; i < 4; ++i) {
    out[2 * i] = kWiden(static_cast<uint16_t>(words[i]));
    out[2 * i + 1] = kWiden(static_cast<uint16_t>(words[i] >> 16));
  }
}
template <float (*kWiden)(uint16_t)>
struct HalfFormat {
  BP_FORMAT_SIZES(8, 16);
  __device__ static void read(const uint8_t* block, uint32_t, const void*, Eight& out) {
    widen_halves<kWiden>(*reinterpret_cast<const uint4*>(block), out);
  }
};
template <>
struct Format<BP_DTYPE_F16> : HalfFormat<f16_value> {};
template <>
struct Format<BP_DTYPE_BF16> : HalfFormat<bf16_value> {};

// Eight 8-bit floats as pairs of bf16, which holds all their values.
template <float2 (*kWiden)(uint32_t)>
__device__ __forceinline__ uint4 widen_to_bf16(const uint2& bits) {
  const auto pair = [](uint32_t two) {
    const float2 values = kWiden(two);
    return pack_bf16(values.x, values.y);
  };
  return {pair(bits.x & 0xffffu), pair(bits.x >> 16), pair(bits.y & 0xffffu), pair(bits.y >> 16)};
}

// Two values of a register at a time, as its low or high half.
template <float2 (*kWiden)(uint32_t)>
struct ByteFormat {
  BP_FORMAT_SIZES(8, 8);
  __device__ static void widen(const uint2& bits, float* out) {
    const uint32_t pairs[4] = {bits.x & 0xffffu, bits.x >> 16, bits.y & 0xffffu, bits.y >> 16};
    BP_UNROLL
    for (int i = 0; i < 4; ++i) {
      const float2 pair = kWiden(pairs[i]);
      out[2 * i] = pair.x, out[2 * i + 1] = pair.y;
    }
  }
  __device__ static void read(const uint8_t* block, uint32_t, const void*, Eight& out) {
    widen(*reinterpret_cast<const uint2*>(block), out);
  }
};
template <>
struct Format<BP_DTYPE_F8_E4M3> : ByteFormat<e4m3_pair> {};
template <>
struct Format<BP_DTYPE_F8_E5M2> : ByteFormat<e5m2_pair> {};

}  // namespace bp::cuda
