#pragma once
// Four-bit floats with small float scales, ternary values, one and two bits, and the types that
// activations have in files.

#include "backends/cuda/kernels/formats/format.cuh"

namespace bp::cuda {

// Twice the value of an e2m1: 0 1 2 3 4 6 8 12, then their negatives.
__device__ __forceinline__ float twice_e2m1(uint32_t nibble) {
  const auto magnitude = static_cast<float>(0x0c08060403020100ull >> (nibble % 8 * 8) & 0xff);
  return nibble < 8 ? magnitude : -magnitude;
}

// | unsigned e4m3 scales[4], of 16 elements | qs[32], 8 bytes for 16 elements |
template <>
struct Format<BP_DTYPE_NVFP4> {
  BP_FORMAT_SIZES(64, 36);
  __device__ static void read(const uint8_t* block, uint32_t first, const void*, Eight& out) {
    const uint32_t group = first / 16;
    const float half_scale = e4m3_value(block[group] & 0x7f) * 0.5f;
    const uint8_t* qs = block + 4 + 8 * group;
    for (uint32_t i = 0; i < 8; ++i) {
      out[i] = twice_e2m1(qs[i] >> (first % 16 / 8 * 4) & 0xf) * half_scale;
    }
  }
};

// A byte holds five base-3 digits as the fraction byte / 256, the most significant first: digit n
// is the integer part of 3 * frac(byte * 3^n / 256).
__device__ __forceinline__ int32_t ternary_digit(uint32_t byte, uint32_t n) {
  const uint32_t power = n == 0 ? 1 : n == 1 ? 3 : n == 2 ? 9 : n == 3 ? 27 : 81;
  return static_cast<int32_t>((byte * power & 0xff) * 3 >> 8);
}

// | qs[48]: 5 digits each, 32 bytes for elements 0..159, 16 for 160..239 | qh[4]: 4 digits each |
// | f16 d |  d * (digit - 1). Digit n of byte m of a run is element n * run + m.
template <>
struct Format<BP_DTYPE_TQ1_0> {
  BP_FORMAT_SIZES(256, 54);
  __device__ static void read(const uint8_t* block, uint32_t first, const void*, Eight& out) {
    const float d = load_f16(block + 52);
    for (uint32_t i = 0; i < 8; ++i) {
      const uint32_t at = first + i;
      const uint32_t begin = at < 160 ? 0 : at < 240 ? 160 : 240;
      const uint32_t run = at < 160 ? 32 : at < 240 ? 16 : 4;
      const uint32_t byte = block[begin / 5 + (at - begin) % run];
      out[i] = static_cast<float>(ternary_digit(byte, (at - begin) / run) - 1) * d;
    }
  }
};

// | qs[64] two bits as in the K types | f16 d |  d * (q - 1)
template <>
struct Format<BP_DTYPE_TQ2_0> {
  BP_FORMAT_SIZES(256, 66);
  __device__ static void read(const uint8_t* block, uint32_t first, const void*, Eight& out) {
    const float d = load_f16(block + 64);
    const uint8_t* qs = block + first / 128 * 32 + first % 32;
    for (uint32_t i = 0; i < 8; ++i) {
      out[i] = static_cast<float>((qs[i] >> (first % 128 / 32 * 2) & 3) - 1) * d;
    }
  }
};

// | f16 d | 128 bits |  bit ? d : -d
template <>
struct Format<BP_DTYPE_Q1_0> {
  BP_FORMAT_SIZES(128, 18);
  __device__ static void read(const uint8_t* block, uint32_t first, const void*, Eight& out) {
    const float d = load_f16(block);
    for (uint32_t i = 0; i < 8; ++i) out[i] = (block[2 + first / 8] >> i & 1) != 0 ? d : -d;
  }
};

// | f16 d | 64 x 2 bits |  d * (q - 1)
template <>
struct Format<BP_DTYPE_Q2_0> {
  BP_FORMAT_SIZES(64, 18);
  __device__ static void read(const uint8_t* block, uint32_t first, const void*, Eight& out) {
    const float d = load_f16(block);
    for (uint32_t i = 0; i < 8; ++i) {
      const uint32_t q = block[2 + (first + i) / 4] >> (i % 4 * 2) & 3;
      out[i] = static_cast<float>(static_cast<int32_t>(q) - 1) * d;
    }
  }
};

// | f16 d | f16 sum | s8 qs[32] |  d * q
template <>
struct Format<BP_DTYPE_Q8_1> {
  BP_FORMAT_SIZES(32, 36);
  __device__ static void read(const uint8_t* block, uint32_t first, const void*, Eight& out) {
    const float d = load_f16(block);
    for (uint32_t i = 0; i < 8; ++i) {
      out[i] = static_cast<float>(load_s8(block + 4 + first + i)) * d;
    }
  }
};

// | f32 d | s8 qs[256] | s16 sums[16] |  d * q
template <>
struct Format<BP_DTYPE_Q8_K> {
  BP_FORMAT_SIZES(256, 292);
  __device__ static void read(const uint8_t* block, uint32_t first, const void*, Eight& out) {
    const float d = __uint_as_float(load_u32(block));
    for (uint32_t i = 0; i < 8; ++i)
      out[i] = d * static_cast<float>(load_s8(block + 4 + first + i));
  }
};

}  // namespace bp::cuda
