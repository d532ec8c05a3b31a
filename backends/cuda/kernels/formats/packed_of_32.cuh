#pragma once
// Blocks of 32, in planes. Byte j of the nibbles holds element j in its low and element j + 16 in
// its high half.

#include "backends/cuda/kernels/formats/packed.cuh"

namespace bp::cuda {

// Runs of blocks of 32: the halves of a block.
struct BlocksOf32 {
  static constexpr uint32_t kElements = 32;
  static constexpr uint32_t kRunDistance = 16;
  __device__ static uint32_t first_of_run0(uint32_t chunk) { return chunk * kChunk; }
};

// Nibbles with a scale in f16.
template <bp_dtype kDtype>
struct ScaledNibbles : BlocksOf32 {
  static constexpr bool kHasMinimum = false;
  struct Raw {
    uint4 qs;
    float d;
  };
  __device__ static void load(const PackedRow& row, uint32_t chunk, Raw& raw) {
    raw.qs = load_16(plane_of<kDtype, 0>(row) + chunk * 16);
    raw.d = load_f16(plane_of<kDtype, 1>(row) + chunk * 2);
  }
};

template <>
struct Packed<BP_DTYPE_Q4_0> : ScaledNibbles<BP_DTYPE_Q4_0> {
  __device__ static void unpack(const Raw& raw, uint32_t, Chunk& out) {
    split_nibbles(raw.qs, out.q);
    BP_UNROLL
    for (uint32_t i = 0; i < 8; ++i) out.q[i] = centred<4>(out.q[i]);
    set_scales(out, raw.d);
  }
};

template <>
struct Packed<BP_DTYPE_Q4_1> : BlocksOf32 {
  static constexpr bool kHasMinimum = true;
  struct Raw {
    uint4 qs;
    uint32_t dm;
  };
  __device__ static void load(const PackedRow& row, uint32_t chunk, Raw& raw) {
    raw.qs = load_16(plane_of<BP_DTYPE_Q4_1, 0>(row) + chunk * 16);
    raw.dm = load_word(plane_of<BP_DTYPE_Q4_1, 1>(row) + chunk * 4);
  }
  __device__ static void unpack(const Raw& raw, uint32_t, Chunk& out) {
    split_nibbles(raw.qs, out.q);
    set_scales(out, low_f16(raw.dm), -high_f16(raw.dm));
  }
};

template <>
struct Packed<BP_DTYPE_Q5_0> : BlocksOf32 {
  static constexpr bool kHasMinimum = false;
  struct Raw {
    uint4 qs;
    uint32_t qh;
    float d;
  };
  __device__ static void load(const PackedRow& row, uint32_t chunk, Raw& raw) {
    raw.qs = load_16(plane_of<BP_DTYPE_Q5_0, 0>(row) + chunk * 16);
    raw.qh = load_word(plane_of<BP_DTYPE_Q5_0, 1>(row) + chunk * 4);
    raw.d = load_f16(plane_of<BP_DTYPE_Q5_0, 2>(row) + chunk * 2);
  }
  __device__ static void unpack(const Raw& raw, uint32_t, Chunk& out) {
    split_nibbles(raw.qs, out.q);
    BP_UNROLL
    for (uint32_t i = 0; i < 8; ++i) {
      out.q[i] = centred<5>(out.q[i] | spread_bits(raw.qh >> (4 * i)) << 4);
    }
    set_scales(out, raw.d);
  }
};

template <>
struct Packed<BP_DTYPE_Q5_1> : BlocksOf32 {
  static constexpr bool kHasMinimum = true;
  struct Raw {
    uint4 qs;
    uint32_t qh, dm;
  };
  __device__ static void load(const PackedRow& row, uint32_t chunk, Raw& raw) {
    raw.qs = load_16(plane_of<BP_DTYPE_Q5_1, 0>(row) + chunk * 16);
    raw.qh = load_word(plane_of<BP_DTYPE_Q5_1, 1>(row) + chunk * 4);
    raw.dm = load_word(plane_of<BP_DTYPE_Q5_1, 2>(row) + chunk * 4);
  }
  __device__ static void unpack(const Raw& raw, uint32_t, Chunk& out) {
    split_nibbles(raw.qs, out.q);
    BP_UNROLL
    for (uint32_t i = 0; i < 8; ++i) out.q[i] |= spread_bits(raw.qh >> (4 * i)) << 4;
    set_scales(out, low_f16(raw.dm), -high_f16(raw.dm));
  }
};

template <>
struct Packed<BP_DTYPE_Q8_0> : BlocksOf32 {
  static constexpr bool kHasMinimum = false;
  struct Raw {
    uint4 qs[2];
    float d;
  };
  __device__ static void load(const PackedRow& row, uint32_t chunk, Raw& raw) {
    const uint8_t* qs = plane_of<BP_DTYPE_Q8_0, 0>(row) + chunk * 32;
    raw.qs[0] = load_16(qs);
    raw.qs[1] = load_16(qs + 16);
    raw.d = load_f16(plane_of<BP_DTYPE_Q8_0, 1>(row) + chunk * 2);
  }
  __device__ static void unpack(const Raw& raw, uint32_t, Chunk& out) {
    BP_UNROLL
    for (uint32_t r = 0; r < 2; ++r) {
      out.q[4 * r] = raw.qs[r].x, out.q[4 * r + 1] = raw.qs[r].y;
      out.q[4 * r + 2] = raw.qs[r].z, out.q[4 * r + 3] = raw.qs[r].w;
    }
    set_scales(out, raw.d);
  }
};

template <>
struct Packed<BP_DTYPE_IQ4_NL> : ScaledNibbles<BP_DTYPE_IQ4_NL> {
  // -127 -104 -83 -65 -49 -35 -22 -10 1 13 25 38 53 69 89 113
  __device__ static void level(Chunk& out) {
    const uint32_t table[4] = {0xbfad9881u, 0xf6eaddcfu, 0x26190d01u, 0x71594535u};
    look_up_all(out, table);
  }
  __device__ static void unpack(const Raw& raw, uint32_t, Chunk& out) {
    split_nibbles(raw.qs, out.q);
    level(out);
    set_scales(out, raw.d);
  }
};

template <>
struct Packed<BP_DTYPE_MXFP4> : BlocksOf32 {
  static constexpr bool kHasMinimum = false;
  struct Raw {
    uint4 qs;
    float half_scale;
  };
  __device__ static void load(const PackedRow& row, uint32_t chunk, Raw& raw) {
    raw.qs = load_16(plane_of<BP_DTYPE_MXFP4, 0>(row) + chunk * 16);
    raw.half_scale = e8m0_value(plane_of<BP_DTYPE_MXFP4, 1>(row)[chunk]) * 0.5f;
  }
  // Twice the values: 0 1 2 3 4 6 8 12 and their negatives.
  __device__ static void unpack(const Raw& raw, uint32_t, Chunk& out) {
    const uint32_t table[4] = {0x03020100u, 0x0c080604u, 0xfdfeff00u, 0xf4f8fafcu};
    split_nibbles(raw.qs, out.q);
    look_up_all(out, table);
    set_scales(out, raw.half_scale);
  }
};

}  // namespace bp::cuda
