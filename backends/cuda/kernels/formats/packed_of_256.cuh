#pragma once
// Blocks of 256, in planes.

#include "backends/cuda/kernels/formats/packed_of_32.cuh"

namespace bp::cuda {

// Chunk c of q4_K and q5_K: bytes [16 * (c % 2), + 16) of the 32 that hold 64 columns, the low
// nibbles those of the first 32.
struct NibblesOf64 {
  static constexpr uint32_t kElements = 256;
  static constexpr bool kHasMinimum = true;
  static constexpr uint32_t kRunDistance = 32;
  __device__ static uint32_t first_of_run0(uint32_t chunk) {
    return chunk / 2 * 64 + chunk % 2 * 16;
  }
  // d * scale and dmin * minimum of groups 2 * pair and 2 * pair + 1 of a block, from its header.
  __device__ static void read_scales(const uint4& header, uint32_t pair, Chunk& out) {
    const float d = low_f16(header.x), dmin = high_f16(header.x);
    BP_UNROLL
    for (uint32_t r = 0; r < 2; ++r) {
      const uint32_t shift = (2 * pair + r) % 4 * 8;
      uint32_t scale = header.y >> shift & 0xffu, minimum = header.z >> shift & 0xffu;
      if (pair >= 2) {
        const uint32_t low = header.w >> shift & 0xffu;
        scale = (low & 0xfu) | scale >> 6 << 4;
        minimum = low >> 4 | minimum >> 6 << 4;
      }
      out.scale[r] = d * static_cast<float>(scale & 63u);
      out.minimum[r] = dmin * static_cast<float>(minimum & 63u);
    }
  }
};

template <>
struct Packed<BP_DTYPE_Q4_K> : NibblesOf64 {
  struct Raw {
    uint4 qs, header;
  };
  __device__ static void load(const PackedRow& row, uint32_t chunk, Raw& raw) {
    raw.qs = load_16(plane_of<BP_DTYPE_Q4_K, 0>(row) + chunk * 16);
    raw.header = load_16(plane_of<BP_DTYPE_Q4_K, 1>(row) + chunk / 8 * 16);
  }
  __device__ static void unpack(const Raw& raw, uint32_t chunk, Chunk& out) {
    split_nibbles(raw.qs, out.q);
    read_scales(raw.header, chunk % 8 / 2, out);
  }
};

template <>
struct Packed<BP_DTYPE_Q5_K> : NibblesOf64 {
  struct Raw {
    uint4 qs, qh, header;
  };
  __device__ static void load(const PackedRow& row, uint32_t chunk, Raw& raw) {
    raw.qs = load_16(plane_of<BP_DTYPE_Q5_K, 0>(row) + chunk * 16);
    raw.qh = load_16(plane_of<BP_DTYPE_Q5_K, 1>(row) + chunk / 8 * 32 + chunk % 2 * 16);
    raw.header = load_16(plane_of<BP_DTYPE_Q5_K, 2>(row) + chunk / 8 * 16);
  }
  __device__ static void unpack(const Raw& raw, uint32_t chunk, Chunk& out) {
    split_nibbles(raw.qs, out.q);
    const uint32_t bit = chunk % 8 / 2 * 2;  // of run 0; run 1 has the next
    const uint32_t high[4] = {raw.qh.x, raw.qh.y, raw.qh.z, raw.qh.w};
    BP_UNROLL
    for (uint32_t i = 0; i < 4; ++i) {
      out.q[i] |= (high[i] >> bit & 0x01010101u) << 4;
      out.q[4 + i] |= (high[i] >> (bit + 1) & 0x01010101u) << 4;
    }
    read_scales(raw.header, chunk % 8 / 2, out);
  }
};

// Chunk c of q6_K: bytes [16 * (c % 4), + 16) of the 64 that hold the lower bits of 128 columns.
template <>
struct Packed<BP_DTYPE_Q6_K> {
  static constexpr uint32_t kElements = 256;
  static constexpr bool kHasMinimum = false;
  static constexpr uint32_t kRunDistance = 64;
  struct Raw {
    uint4 ql, qh;
    int32_t scale0, scale1;
    float d;
  };
  __device__ static uint32_t first_of_run0(uint32_t chunk) {
    return chunk / 4 * 128 + chunk % 4 * 16;
  }
  __device__ static void load(const PackedRow& row, uint32_t chunk, Raw& raw) {
    const uint32_t block = chunk / 8;
    raw.ql = load_16(plane_of<BP_DTYPE_Q6_K, 0>(row) + chunk * 16);
    raw.qh = load_16(plane_of<BP_DTYPE_Q6_K, 1>(row) + chunk / 4 * 32 + chunk % 2 * 16);
    const uint8_t* scales = plane_of<BP_DTYPE_Q6_K, 2>(row) + chunk / 4 * 8 + chunk % 4;
    raw.scale0 = load_s8(scales);
    raw.scale1 = load_s8(scales + 4);
    raw.d = load_f16(plane_of<BP_DTYPE_Q6_K, 3>(row) + block * 2);
  }
  __device__ static void unpack(const Raw& raw, uint32_t chunk, Chunk& out) {
    split_nibbles(raw.ql, out.q);
    const uint32_t bit = chunk % 4 / 2 * 2;  // of run 0; run 1 has those 4 bits above
    const uint32_t high[4] = {raw.qh.x, raw.qh.y, raw.qh.z, raw.qh.w};
    BP_UNROLL
    for (uint32_t i = 0; i < 4; ++i) {
      out.q[i] = centred<6>(out.q[i] | (high[i] >> bit & 0x03030303u) << 4);
      out.q[4 + i] = centred<6>(out.q[4 + i] | (high[i] >> (bit + 4) & 0x03030303u) << 4);
    }
    out.scale[0] = raw.d * static_cast<float>(raw.scale0);
    out.scale[1] = raw.d * static_cast<float>(raw.scale1);
    out.minimum[0] = out.minimum[1] = 0;
  }
};

// Chunk c of q2_K and q3_K: two of the four 2-bit fields of bytes [16 * (c % 2), + 16) of the 32
// that hold 128 columns.
struct PairsOf128 {
  static constexpr uint32_t kElements = 256;
  static constexpr uint32_t kRunDistance = 32;
  __device__ static uint32_t first_of_run0(uint32_t chunk) {
    return chunk / 2 * 64 + chunk % 2 * 16;
  }
  __device__ static uint32_t byte_of(uint32_t chunk) { return chunk / 4 * 32 + chunk % 2 * 16; }
  __device__ static void split(const uint4& qs, uint32_t chunk, uint32_t (&q)[8]) {
    const uint32_t bit = chunk % 4 / 2 * 4;
    const uint32_t words[4] = {qs.x, qs.y, qs.z, qs.w};
    BP_UNROLL
    for (uint32_t i = 0; i < 4; ++i) {
      q[i] = words[i] >> bit & 0x03030303u;
      q[4 + i] = words[i] >> (bit + 2) & 0x03030303u;
    }
  }
};

template <>
struct Packed<BP_DTYPE_Q2_K> : PairsOf128 {
  static constexpr bool kHasMinimum = true;
  struct Raw {
    uint4 qs;
    uint32_t scale0, scale1, dm;
  };
  __device__ static void load(const PackedRow& row, uint32_t chunk, Raw& raw) {
    raw.qs = load_16(plane_of<BP_DTYPE_Q2_K, 0>(row) + byte_of(chunk));
    const uint8_t* scales = plane_of<BP_DTYPE_Q2_K, 1>(row) + first_of_run0(chunk) / 16;
    raw.scale0 = scales[0];
    raw.scale1 = scales[2];
    raw.dm = load_word(plane_of<BP_DTYPE_Q2_K, 2>(row) + chunk / 8 * 4);
  }
  __device__ static void unpack(const Raw& raw, uint32_t chunk, Chunk& out) {
    split(raw.qs, chunk, out.q);
    const float d = low_f16(raw.dm), dmin = high_f16(raw.dm);
    out.scale[0] = d * static_cast<float>(raw.scale0 & 0xfu);
    out.scale[1] = d * static_cast<float>(raw.scale1 & 0xfu);
    out.minimum[0] = dmin * static_cast<float>(raw.scale0 >> 4);
    out.minimum[1] = dmin * static_cast<float>(raw.scale1 >> 4);
  }
};

template <>
struct Packed<BP_DTYPE_Q3_K> : PairsOf128 {
  static constexpr bool kHasMinimum = false;
  struct Raw {
    uint4 qs, hmask;
    uint32_t low, high;  // words of the scales' lower and upper bits
    float d;
  };
  // Scale j: the lower four bits are nibbles of bytes 0..7 (j and j + 8), the upper two bits those
  // of bytes 8..11 (j, j + 4, j + 8, j + 12).
  __device__ static void load(const PackedRow& row, uint32_t chunk, Raw& raw) {
    const uint32_t block = chunk / 8, j = first_of_run0(chunk % 8) / 16;
    raw.qs = load_16(plane_of<BP_DTYPE_Q3_K, 0>(row) + byte_of(chunk));
    raw.hmask = load_16(plane_of<BP_DTYPE_Q3_K, 1>(row) + block * 32 + chunk % 2 * 16);
    const uint8_t* scales = plane_of<BP_DTYPE_Q3_K, 2>(row) + block * 12;
    raw.low = load_word(scales + j % 8 / 4 * 4);
    raw.high = load_word(scales + 8);
    raw.d = load_f16(plane_of<BP_DTYPE_Q3_K, 3>(row) + block * 2);
  }
  __device__ static float scale_of(const Raw& raw, uint32_t j) {
    const uint32_t low = raw.low >> (j % 4 * 8 + j / 8 * 4) & 0xfu;
    const uint32_t high = raw.high >> (j % 4 * 8 + j / 4 * 2) & 3u;
    return raw.d * static_cast<float>(static_cast<int32_t>(low | high << 4) - 32);
  }
  __device__ static void unpack(const Raw& raw, uint32_t chunk, Chunk& out) {
    split(raw.qs, chunk, out.q);
    const uint32_t first = first_of_run0(chunk % 8), bit = first / 32;
    const uint32_t mask[4] = {raw.hmask.x, raw.hmask.y, raw.hmask.z, raw.hmask.w};
    BP_UNROLL
    for (uint32_t i = 0; i < 4; ++i) {
      out.q[i] = centred<3>(out.q[i] | (mask[i] >> bit & 0x01010101u) << 2);
      out.q[4 + i] = centred<3>(out.q[4 + i] | (mask[i] >> (bit + 1) & 0x01010101u) << 2);
    }
    out.scale[0] = scale_of(raw, first / 16);
    out.scale[1] = scale_of(raw, first / 16 + 2);
    out.minimum[0] = out.minimum[1] = 0;
  }
};

template <>
struct Packed<BP_DTYPE_IQ4_XS> {
  static constexpr uint32_t kElements = 256;
  static constexpr bool kHasMinimum = false;
  static constexpr uint32_t kRunDistance = 16;
  struct Raw {
    uint4 qs;
    uint2 header;  // d and the upper, then the lower bits of the scales
  };
  __device__ static uint32_t first_of_run0(uint32_t chunk) { return chunk * kChunk; }
  __device__ static void load(const PackedRow& row, uint32_t chunk, Raw& raw) {
    raw.qs = load_16(plane_of<BP_DTYPE_IQ4_XS, 0>(row) + chunk * 16);
    raw.header = *reinterpret_cast<const uint2*>(plane_of<BP_DTYPE_IQ4_XS, 1>(row) + chunk / 8 * 8);
  }
  __device__ static void unpack(const Raw& raw, uint32_t chunk, Chunk& out) {
    split_nibbles(raw.qs, out.q);
    Packed<BP_DTYPE_IQ4_NL>::level(out);
    const uint32_t group = chunk % 8;
    const uint32_t low = raw.header.y >> (4 * group) & 0xfu;
    const uint32_t high = raw.header.x >> (16 + 2 * group) & 3u;
    set_scales(out, low_f16(raw.header.x) *
                        static_cast<float>(static_cast<int32_t>(low | high << 4) - 32));
  }
};

}  // namespace bp::cuda
