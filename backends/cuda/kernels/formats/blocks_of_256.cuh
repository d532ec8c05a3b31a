#pragma once
// The K types. Two-bit fields: in each half of 128 elements, byte l (of 32) holds elements l, l +
// 32, l + 64 and l + 96, lowest bits first.

#include "backends/cuda/kernels/formats/format.cuh"

namespace bp::cuda {

// Two bits of element i of 256, from 64 bytes.
__device__ __forceinline__ int32_t two_bits(const uint8_t* qs, uint32_t i) {
  return qs[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3;
}

// | scales[16]: scale low, minimum high nibble, of 16 elements | qs[64] | f16 d | f16 dmin |
// d * scale * q - dmin * minimum
template <>
struct Format<BP_DTYPE_Q2_K> {
  BP_FORMAT_SIZES(256, 84);
  __device__ static void read(const uint8_t* block, uint32_t first, const void*, Eight& out) {
    const uint32_t both = block[first / 16];
    const float scale = load_f16(block + 80) * static_cast<float>(both & 0xf);
    const float minimum = load_f16(block + 82) * static_cast<float>(both >> 4);
    for (uint32_t i = 0; i < 8; ++i) {
      out[i] = scale * static_cast<float>(two_bits(block + 16, first + i)) - minimum;
    }
  }
};

// | hmask[32]: byte i % 32, bit i / 32 | qs[64] | scales[12] | f16 d |  d * scale * (q - (bit ? 0 :
// 4)) Scale j of 16 elements, 6 bits less 32: the lower four are nibbles of bytes 0..7 (j and j +
// 8), the upper two bits of bytes 8..11 (j, j + 4, j + 8, j + 12).
template <>
struct Format<BP_DTYPE_Q3_K> {
  BP_FORMAT_SIZES(256, 110);
  __device__ static void read(const uint8_t* block, uint32_t first, const void*, Eight& out) {
    const uint8_t* scales = block + 96;
    const uint32_t j = first / 16;
    const int32_t low = scales[j % 8] >> (j / 8 * 4) & 0xf;
    const int32_t high = scales[8 + j % 4] >> (j / 4 * 2) & 3;
    const float scale = load_f16(block + 108) * static_cast<float>((low | high << 4) - 32);
    for (uint32_t i = 0; i < 8; ++i) {
      const uint32_t at = first + i;
      const int32_t less = (block[at % 32] >> (at / 32) & 1) != 0 ? 0 : 4;
      out[i] = scale * static_cast<float>(two_bits(block + 32, at) - less);
    }
  }
};

// d * scale and dmin * minimum of 32 elements j of q4_K and q5_K, from | f16 d | f16 dmin | 12
// bytes | 6 bits each: those of 0..3 in the low 6 bits of bytes 0..3 and 4..7; those of 4..7 as
// nibbles of bytes 8..11 and the upper two bits of bytes 0..7.
struct ScaleAndMinimum {
  float scale, minimum;
};
__device__ __forceinline__ ScaleAndMinimum scale_and_minimum(const uint8_t* block, uint32_t j) {
  const uint8_t* bytes = block + 4;
  uint32_t scale, minimum;
  if (j < 4) {
    scale = bytes[j] & 63u;
    minimum = bytes[j + 4] & 63u;
  } else {
    scale = (bytes[j + 4] & 0xfu) | static_cast<uint32_t>(bytes[j - 4] >> 6) << 4;
    minimum = static_cast<uint32_t>(bytes[j + 4] >> 4) | static_cast<uint32_t>(bytes[j] >> 6) << 4;
  }
  return {load_f16(block) * static_cast<float>(scale),
          load_f16(block + 2) * static_cast<float>(minimum)};
}

// | f16 d | f16 dmin | scales[12] | qs[128]: byte 32 * g + l holds elements 64 * g + l and + 32 |
template <>
struct Format<BP_DTYPE_Q4_K> {
  BP_FORMAT_SIZES(256, 144);
  __device__ static void read(const uint8_t* block, uint32_t first, const void*, Eight& out) {
    const ScaleAndMinimum s = scale_and_minimum(block, first / 32);
    const uint8_t* qs = block + 16 + first / 64 * 32 + first % 32;
    for (uint32_t i = 0; i < 8; ++i) {
      const int32_t q = qs[i] >> (first / 32 % 2 * 4) & 0xf;
      out[i] = s.scale * static_cast<float>(q) - s.minimum;
    }
  }
};

// | f16 d | f16 dmin | scales[12] | qh[32]: byte i % 32, bit i / 32 | qs[128] as in q4_K |
template <>
struct Format<BP_DTYPE_Q5_K> {
  BP_FORMAT_SIZES(256, 176);
  __device__ static void read(const uint8_t* block, uint32_t first, const void*, Eight& out) {
    const ScaleAndMinimum s = scale_and_minimum(block, first / 32);
    const uint8_t* high = block + 16 + first % 32;
    const uint8_t* qs = block + 48 + first / 64 * 32 + first % 32;
    for (uint32_t i = 0; i < 8; ++i) {
      const int32_t low = qs[i] >> (first / 32 % 2 * 4) & 0xf;
      const int32_t q = low | (high[i] >> (first / 32) & 1) << 4;
      out[i] = s.scale * static_cast<float>(q) - s.minimum;
    }
  }
};

// | ql[128]: in each half of 128, byte l (of 64) holds elements l and l + 64 | qh[64] two bits |
// | s8 scales[16] of 16 elements | f16 d |  d * scale * (q - 32)
template <>
struct Format<BP_DTYPE_Q6_K> {
  BP_FORMAT_SIZES(256, 210);
  __device__ static void read(const uint8_t* block, uint32_t first, const void*, Eight& out) {
    const float scale =
        load_f16(block + 208) * static_cast<float>(load_s8(block + 192 + first / 16));
    for (uint32_t i = 0; i < 8; ++i) {
      const uint32_t at = first + i;
      const int32_t low = block[at / 128 * 64 + at % 64] >> (at % 128 / 64 * 4) & 0xf;
      out[i] = scale * static_cast<float>((low | two_bits(block + 128, at) << 4) - 32);
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
