#pragma once
// Weights in planes, read by chunks: 16 bytes of the first plane (32 of q8_0) and what belongs to
// them. A chunk holds two runs of 16 neighbouring values, as signed bytes:
//   value i of run r = scale[r] * byte i - minimum[r]
// Four chunks cover 128 neighbouring columns. A type has
//   kElements      of a block
//   kHasMinimum
//   Raw            registers as they are loaded
//   load(row, chunk, raw)
//   unpack(raw, chunk, out)
//   first_of_run0(chunk), kRunDistance     columns where the runs begin

#include "backends/cuda/kernels/formats/format.cuh"
#include "backends/cuda/kernels/formats/planes.hpp"

namespace bp::cuda {

inline constexpr uint32_t kRun = 16;          // values that share a scale, of weights and of x
inline constexpr uint32_t kChunk = 2 * kRun;  // values

struct Chunk {
  uint32_t q[8];  // four signed bytes each; run 0, then run 1
  float scale[2];
  float minimum[2];
};

// A row, and how many blocks it has.
struct PackedRow {
  const uint8_t* data;
  uint32_t n_blocks;
};

// Plane kPlane of a row.
template <bp_dtype kDtype, uint32_t kPlane>
__device__ __forceinline__ const uint8_t* plane_of(const PackedRow& row) {
  constexpr PlaneList kList = planes_of(kDtype);
  const uint8_t* at = row.data;
  if constexpr (kPlane > 0) {
    constexpr uint32_t kBytes = kList.planes[0].n_bytes;
    at += (row.n_blocks * kBytes + 15) / 16 * 16;
  }
  if constexpr (kPlane > 1) {
    constexpr uint32_t kBytes = kList.planes[1].n_bytes;
    at += (row.n_blocks * kBytes + 15) / 16 * 16;
  }
  if constexpr (kPlane > 2) {
    constexpr uint32_t kBytes = kList.planes[2].n_bytes;
    at += (row.n_blocks * kBytes + 15) / 16 * 16;
  }
  return at;
}

__device__ __forceinline__ uint4 load_16(const uint8_t* at) {
  return *reinterpret_cast<const uint4*>(at);
}
__device__ __forceinline__ uint32_t load_word(const uint8_t* at) {
  return *reinterpret_cast<const uint32_t*>(at);
}
__device__ __forceinline__ float low_f16(uint32_t word) {
  return f16_value(static_cast<uint16_t>(word));
}
__device__ __forceinline__ float high_f16(uint32_t word) {
  return f16_value(static_cast<uint16_t>(word >> 16));
}

// Bytes of at most 2^bits less 2^(bits - 1), in each byte of a word.
template <uint32_t kBits>
__device__ __forceinline__ uint32_t centred(uint32_t bytes) {
  constexpr uint32_t kOffset = 0x80u - (1u << (kBits - 1));
  return (bytes + kOffset * 0x01010101u) ^ 0x80808080u;
}
// Low nibbles to run 0, high nibbles to run 1.
__device__ __forceinline__ void split_nibbles(const uint4& qs, uint32_t (&q)[8]) {
  const uint32_t words[4] = {qs.x, qs.y, qs.z, qs.w};
  BP_UNROLL
  for (uint32_t i = 0; i < 4; ++i) {
    q[i] = words[i] & 0x0f0f0f0fu;
    q[4 + i] = words[i] >> 4 & 0x0f0f0f0fu;
  }
}
// Bits 0..3 to bit 0 of bytes 0..3.
__device__ __forceinline__ uint32_t spread_bits(uint32_t bits) {
  return (bits & 0xfu) * 0x00204081u & 0x01010101u;
}
__device__ __forceinline__ void set_scales(Chunk& out, float scale, float minimum = 0) {
  out.scale[0] = out.scale[1] = scale;
  out.minimum[0] = out.minimum[1] = minimum;
}

// Table entries of four nibbles, one in each byte of `nibbles`; entry i is byte i of the table.
__device__ __forceinline__ uint32_t look_up_4(uint32_t nibbles, const uint32_t (&table)[4]) {
  // The selector of byte_perm: a nibble for each byte.
  const uint32_t packed = nibbles | nibbles >> 4;
  const uint32_t selector = (packed & 0xffu) | (packed >> 8 & 0xff00u);
  const uint32_t low = __byte_perm(table[0], table[1], selector & 0x7777u);
  const uint32_t high = __byte_perm(table[2], table[3], selector & 0x7777u);
  const uint32_t is_high = (nibbles >> 3 & 0x01010101u) * 0xffu;
  return (low & ~is_high) | (high & is_high);
}
__device__ __forceinline__ void look_up_all(Chunk& chunk, const uint32_t (&table)[4]) {
  BP_UNROLL
  for (uint32_t i = 0; i < 8; ++i) chunk.q[i] = look_up_4(chunk.q[i], table);
}

template <bp_dtype kDtype>
struct Packed;

}  // namespace bp::cuda
