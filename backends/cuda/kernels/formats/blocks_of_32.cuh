#pragma once
// q4_0, q4_1, q5_0, q5_1, q8_0. Byte j of `qs` holds element j in its low and element j + 16 in its
// high half.

#include "backends/cuda/kernels/formats/format.cuh"

namespace bp::cuda {

__device__ __forceinline__ int32_t nibble(const uint8_t* qs, uint32_t element) {
  return qs[element % 16] >> (element / 16 * 4) & 0xf;
}

// | f16 d | qs[16] |  d * (q - 8)
template <>
struct Format<BP_DTYPE_Q4_0> {
  BP_FORMAT_SIZES(32, 18);
  __device__ static void read(const uint8_t* block, uint32_t first, const void*, Eight& out) {
    const float d = load_f16(block);
    for (uint32_t i = 0; i < 8; ++i) {
      out[i] = static_cast<float>(nibble(block + 2, first + i) - 8) * d;
    }
  }
};

// | f16 d | f16 m | qs[16] |  d * q + m
template <>
struct Format<BP_DTYPE_Q4_1> {
  BP_FORMAT_SIZES(32, 20);
  __device__ static void read(const uint8_t* block, uint32_t first, const void*, Eight& out) {
    const float d = load_f16(block), m = load_f16(block + 2);
    for (uint32_t i = 0; i < 8; ++i) {
      out[i] = static_cast<float>(nibble(block + 4, first + i)) * d + m;
    }
  }
};

// | f16 d | u32 qh: fifth bits | qs[16] |  d * (q - 16)
template <>
struct Format<BP_DTYPE_Q5_0> {
  BP_FORMAT_SIZES(32, 22);
  __device__ static void read(const uint8_t* block, uint32_t first, const void*, Eight& out) {
    const float d = load_f16(block);
    const uint32_t high = load_u32(block + 2) >> first;
    for (uint32_t i = 0; i < 8; ++i) {
      const int32_t fifth = static_cast<int32_t>(high >> i & 1) << 4;
      out[i] = static_cast<float>((nibble(block + 6, first + i) | fifth) - 16) * d;
    }
  }
};

// | f16 d | f16 m | u32 qh | qs[16] |  d * q + m
template <>
struct Format<BP_DTYPE_Q5_1> {
  BP_FORMAT_SIZES(32, 24);
  __device__ static void read(const uint8_t* block, uint32_t first, const void*, Eight& out) {
    const float d = load_f16(block), m = load_f16(block + 2);
    const uint32_t high = load_u32(block + 4) >> first;
    for (uint32_t i = 0; i < 8; ++i) {
      const int32_t fifth = static_cast<int32_t>(high >> i & 1) << 4;
      out[i] = static_cast<float>(nibble(block + 8, first + i) | fifth) * d + m;
    }
  }
};

// | f16 d | s8 qs[32] |  d * q
template <>
struct Format<BP_DTYPE_Q8_0> {
  BP_FORMAT_SIZES(32, 34);
  __device__ static void read(const uint8_t* block, uint32_t first, const void*, Eight& out) {
    const float d = load_f16(block);
    for (uint32_t i = 0; i < 8; ++i) {
      out[i] = static_cast<float>(load_s8(block + 2 + first + i)) * d;
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

}  // namespace bp::cuda
