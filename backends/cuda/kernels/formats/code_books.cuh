#pragma once
// The IQ types: values from code books. `grid` is the type's own: entries of 8 or 4 bytes.

#include "backends/cuda/kernels/formats/format.cuh"

namespace bp::cuda {

// Magnitudes of an entry, negated where bits of `signs` are set.
template <class Entry>
__device__ __forceinline__ void write_signed(Entry entry, uint32_t signs, float scale, float* out) {
  for (uint32_t i = 0; i < sizeof(Entry); ++i) {
    const float value = scale * static_cast<float>(static_cast<uint32_t>(entry >> (8 * i)) & 0xff);
    out[i] = (signs >> i & 1) != 0 ? -value : value;
  }
}

// Seven stored sign bits and the eighth, which makes the number of negative elements even.
__device__ __forceinline__ uint32_t with_even_sign(uint32_t seven_bits) {
  return seven_bits | static_cast<uint32_t>(__popc(seven_bits) & 1) << 7;
}

__device__ __forceinline__ uint64_t entry8(const void* grid, uint32_t i) {
  return static_cast<const uint64_t*>(grid)[i];
}
__device__ __forceinline__ uint32_t entry4(const void* grid, uint32_t i) {
  return static_cast<const uint32_t*>(grid)[i];
}

// Four bits stand for odd eighths of d.
__device__ __forceinline__ float eighths(float d, uint32_t four_bits) {
  return d * (0.5f + static_cast<float>(four_bits)) * 0.25f;
}

// | f16 d | 8 groups of 32: { u8 index[4], u32: 4 x 7 sign bits, scale in bits 28..31 } |
template <>
struct Format<BP_DTYPE_IQ2_XXS> {
  BP_FORMAT_SIZES(256, 66);
  __device__ static void read(const uint8_t* block, uint32_t first, const void* grid, Eight& out) {
    const uint8_t* index = block + 2 + first / 32 * 8;
    const uint32_t word = load_u32(index + 4), l = first % 32 / 8;
    write_signed(entry8(grid, index[l]), with_even_sign(word >> (7 * l) & 127),
                 eighths(load_f16(block), word >> 28), out);
  }
};

// | f16 d | u16 qs[32]: 9 bits index, 7 bits signs | scales[8]: a nibble for 16 elements, low first
// |
template <>
struct Format<BP_DTYPE_IQ2_XS> {
  BP_FORMAT_SIZES(256, 74);
  __device__ static void read(const uint8_t* block, uint32_t first, const void* grid, Eight& out) {
    const uint32_t q = load_u16(block + 2 + first / 8 * 2);
    const uint32_t scale = block[66 + first / 32] >> (first / 16 % 2 * 4) & 0xf;
    write_signed(entry8(grid, q & 511), with_even_sign(q >> 9), eighths(load_f16(block), scale),
                 out);
  }
};

// | f16 d | index[32], low 8 bits | signs[32] | qh[8]: 2 upper bits of 4 indices | scales[8] as
// above |
template <>
struct Format<BP_DTYPE_IQ2_S> {
  BP_FORMAT_SIZES(256, 82);
  __device__ static void read(const uint8_t* block, uint32_t first, const void* grid, Eight& out) {
    const uint32_t i = first / 8;
    const uint32_t high = block[66 + i / 4] >> (i % 4 * 2) & 3;
    const uint32_t scale = block[74 + i / 4] >> (i / 2 % 2 * 4) & 0xf;
    write_signed(entry8(grid, block[2 + i] | high << 8), block[34 + i],
                 eighths(load_f16(block), scale), out);
  }
};

// | f16 d | index[64] | 8 words u32, of 32 elements: 4 x 7 sign bits, scale in bits 28..31 |
template <>
struct Format<BP_DTYPE_IQ3_XXS> {
  BP_FORMAT_SIZES(256, 98);
  __device__ static void read(const uint8_t* block, uint32_t first, const void* grid, Eight& out) {
    const uint32_t word = load_u32(block + 66 + first / 32 * 4), l = first % 32 / 8;
    const float scale = load_f16(block) * (0.5f + static_cast<float>(word >> 28)) * 0.5f;
    const uint32_t signs = with_even_sign(word >> (7 * l) & 127);
    const uint8_t* index = block + 2 + first / 4;
    write_signed(entry4(grid, index[0]), signs, scale, out);
    write_signed(entry4(grid, index[1]), signs >> 4, scale, out + 4);
  }
};

// | f16 d | index[64], low 8 bits | qh[8]: bit i % 8 of byte i / 8 is index i's ninth | signs[32] |
// | scales[4]: a nibble for 32 elements, low first |  d * (1 + 2 * nibble)
template <>
struct Format<BP_DTYPE_IQ3_S> {
  BP_FORMAT_SIZES(256, 110);
  __device__ static void read(const uint8_t* block, uint32_t first, const void* grid, Eight& out) {
    const uint32_t nibble = block[106 + first / 64] >> (first / 32 % 2 * 4) & 0xf;
    const float scale = load_f16(block) * static_cast<float>(1 + 2 * nibble);
    const uint32_t signs = block[74 + first / 8];
    for (uint32_t half = 0; half < 2; ++half) {
      const uint32_t i = first / 4 + half;
      const uint32_t high = block[66 + i / 8] >> (i % 8) & 1;
      write_signed(entry4(grid, block[2 + i] | high << 8), signs >> (4 * half), scale,
                   out + 4 * half);
    }
  }
};

// Values of -1, 0, 1, all shifted by an eighth up or down.
__device__ __forceinline__ void write_shifted(uint64_t entry, bool down, float scale, Eight& out) {
  const float shift = down ? -0.125f : 0.125f;
  for (int i = 0; i < 8; ++i) {
    out[i] = scale * (static_cast<float>(static_cast<int8_t>(entry >> (8 * i))) + shift);
  }
}

// | f16 d | index[32], low 8 bits | u16 qh[8], of 4 entries: 4 x 3 upper index bits, 3 bits scale,
// bit 15 down |  d * (1 + 2 * bits)
template <>
struct Format<BP_DTYPE_IQ1_S> {
  BP_FORMAT_SIZES(256, 50);
  __device__ static void read(const uint8_t* block, uint32_t first, const void* grid, Eight& out) {
    const uint32_t i = first / 8, high = load_u16(block + 34 + i / 4 * 2);
    const float scale = load_f16(block) * static_cast<float>(1 + 2 * (high >> 12 & 7));
    write_shifted(entry8(grid, block[2 + i] | (high >> (i % 4 * 3) & 7) << 8), (high & 0x8000) != 0,
                  scale, out);
  }
};

// | index[32], low 8 bits | qh[16]: a nibble for each entry, low first: 3 upper index bits, down |
// | u16 scales[4]: 4 x 3 bits for 16 elements each, bits 12..15 are nibble k of the f16 d |
template <>
struct Format<BP_DTYPE_IQ1_M> {
  BP_FORMAT_SIZES(256, 56);
  __device__ static void read(const uint8_t* block, uint32_t first, const void* grid, Eight& out) {
    uint32_t d_bits = 0;
    for (uint32_t k = 0; k < 4; ++k) d_bits |= load_u16(block + 48 + 2 * k) >> 12 << (4 * k);
    const uint32_t i = first / 8, word = load_u16(block + 48 + i / 8 * 2);
    const float scale = f16_value(static_cast<uint16_t>(d_bits)) *
                        static_cast<float>(1 + 2 * (word >> (i % 8 / 2 * 3) & 7));
    const uint32_t nibble = block[32 + i / 2] >> (i % 2 * 4) & 0xf;
    write_shifted(entry8(grid, block[i] | (nibble & 7) << 8), (nibble & 8) != 0, scale, out);
  }
};

}  // namespace bp::cuda
