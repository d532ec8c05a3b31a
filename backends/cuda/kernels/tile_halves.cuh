#pragma once
// Tiles (tiles.cuh) of 16-bit floats: x is in 16 bits already, weights are widened to them.

#include "backends/cuda/kernels/formats/packed_of_256.cuh"
#include "backends/cuda/kernels/formats/plain.cuh"
#include "backends/cuda/kernels/tiles.cuh"

namespace bp::cuda {

// Rows in shared memory are 16 bytes longer than their values, so that eight of them lie in
// different banks.
inline constexpr uint32_t kTileStride = kTileDepth + 8;  // 16-bit values

// Chunks of 32 values of a weight's row, as they are loaded and as 16-bit floats.
template <bp_dtype kDtype>
struct TileWeights {
  using P = Packed<kDtype>;
  static constexpr bool kIsF16 = false;
  struct Raw {
    typename P::Raw raw;
  };
  __device__ static uint32_t n_chunks(const Matrix& m) { return m.n_columns / kChunk; }
  __device__ static void load(const Matrix& m, const uint8_t* row, uint32_t chunk, Raw& raw) {
    P::load({row, m.n_columns / P::kElements}, chunk, raw.raw);
  }
  // The value of byte i of a word: 2^23 + 128 more is the float with these bits.
  __device__ static float byte_value(uint32_t biased, uint32_t i) {
    return __uint_as_float(__byte_perm(biased, 0x4b000000u, 0x7540u + i)) - 8388736.0f;
  }
  // To the columns of a step, of which the chunk is one of the four.
  __device__ static void store(const Raw& raw, uint32_t chunk, uint16_t* columns) {
    Chunk w;
    P::unpack(raw.raw, chunk, w);
    const uint32_t first = P::first_of_run0(chunk) % kTileDepth;
    BP_UNROLL
    for (uint32_t r = 0; r < 2; ++r) {
      uint32_t pairs[8];
      BP_UNROLL
      for (uint32_t i = 0; i < 8; ++i) {
        const uint32_t biased = w.q[4 * r + i / 2] ^ 0x80808080u;
        float low = w.scale[r] * byte_value(biased, i % 2 * 2);
        float high = w.scale[r] * byte_value(biased, i % 2 * 2 + 1);
        if constexpr (P::kHasMinimum) low -= w.minimum[r], high -= w.minimum[r];
        pairs[i] = pack_bf16(low, high);
      }
      auto* to = reinterpret_cast<uint4*>(columns + first + r * P::kRunDistance);
      to[0] = {pairs[0], pairs[1], pairs[2], pairs[3]};
      to[1] = {pairs[4], pairs[5], pairs[6], pairs[7]};
    }
  }
};

// 16-bit floats: copied. Columns behind the last one are zeros up to a multiple of 8.
template <bool kF16>
struct TileHalves {
  static constexpr bool kIsF16 = kF16;
  struct Raw {
    uint4 eights[4];
  };
  __device__ static uint32_t n_chunks(const Matrix& m) { return (m.n_columns + 31) / 32; }
  __device__ static void load(const Matrix& m, const uint8_t* row, uint32_t chunk, Raw& raw) {
    BP_UNROLL
    for (uint32_t i = 0; i < 4; ++i) {
      const uint32_t first = chunk * 32 + i * 8;
      raw.eights[i] = first < m.n_columns ? load_16(row + first * 2) : uint4{0, 0, 0, 0};
    }
  }
  __device__ static void store(const Raw& raw, uint32_t chunk, uint16_t* columns) {
    auto* to = reinterpret_cast<uint4*>(columns + chunk % 4 * 32);
    BP_UNROLL
    for (uint32_t i = 0; i < 4; ++i) to[i] = raw.eights[i];
  }
};
template <>
struct TileWeights<BP_DTYPE_BF16> : TileHalves<false> {};
template <>
struct TileWeights<BP_DTYPE_F16> : TileHalves<true> {};

// 8-bit floats: bf16 holds all their values.
template <float2 (*kWiden)(uint32_t)>
struct TileEightBitFloats {
  static constexpr bool kIsF16 = false;
  struct Raw {
    uint2 eights[4];
  };
  __device__ static uint32_t n_chunks(const Matrix& m) { return (m.n_columns + 31) / 32; }
  __device__ static void load(const Matrix& m, const uint8_t* row, uint32_t chunk, Raw& raw) {
    BP_UNROLL
    for (uint32_t i = 0; i < 4; ++i) {
      const uint32_t first = chunk * 32 + i * 8;
      raw.eights[i] =
          first < m.n_columns ? *reinterpret_cast<const uint2*>(row + first) : uint2{0, 0};
    }
  }
  __device__ static void store(const Raw& raw, uint32_t chunk, uint16_t* columns) {
    auto* to = reinterpret_cast<uint4*>(columns + chunk % 4 * 32);
    BP_UNROLL
    for (uint32_t i = 0; i < 4; ++i) to[i] = widen_to_bf16<kWiden>(raw.eights[i]);
  }
};
template <>
struct TileWeights<BP_DTYPE_F8_E4M3> : TileEightBitFloats<e4m3_pair> {};
template <>
struct TileWeights<BP_DTYPE_F8_E5M2> : TileEightBitFloats<e5m2_pair> {};

template <bp_dtype kDtype>
struct HalfTile {
  using W = TileWeights<kDtype>;
  using Raw = typename W::Raw;
  struct alignas(16) X {
    uint16_t rows[kTileRows][kTileStride];
  };
  struct alignas(16) Weights {
    uint16_t columns[kTileColumnsOfWarp][kTileStride];
  };
  static_assert(sizeof(X) == kHalfTileXBytes && sizeof(Weights) == kHalfTileWarpBytes);

  __device__ static uint32_t n_chunks(const Matrix& m) { return W::n_chunks(m); }
  __device__ static void load(const Matrix& m, const uint8_t* row, uint32_t chunk, Raw& raw) {
    W::load(m, row, chunk, raw);
  }
  __device__ static void store(const Raw& raw, uint32_t chunk, uint32_t column, Weights& to) {
    W::store(raw, chunk, to.columns[column]);
  }
  __device__ static void copy(const ProductParams& p, const uint32_t* x_rows, uint32_t n_rows,
                              uint32_t step, X& to) {
    constexpr uint32_t kPieces = kTileDepth / 8;  // of 16 bytes, of a row
    const uint32_t n_used = (n_rows + 15) / 16 * 16 * kPieces;
    for (uint32_t i = threadIdx.x; i < n_used; i += blockDim.x) {
      const uint32_t row = i / kPieces, piece = i % kPieces;
      const uint8_t* from = p.prepared.data +
                            static_cast<uint64_t>(x_rows[row]) * p.prepared.stride_bytes +
                            step * (kTileDepth * 2) + piece * 16;
      copy_async(to.rows[row] + piece * 8, from, row < n_rows ? 16 : 0);
    }
  }
  __device__ static void multiply(const X& x, const Weights& w, uint32_t n_rows, TileSums& sums) {
    const uint32_t matrix = lane_index() / 8, row = lane_index() % 8;
    BP_UNROLL
    for (uint32_t k = 0; k < kTileDepth; k += 16) {
      uint32_t b[4];
      load_matrices(b, w.columns[matrix / 2 * 8 + row] + k + matrix % 2 * 8);
      BP_UNROLL
      for (uint32_t m = 0; m < 4; ++m) {
        if (m * 16 >= n_rows) break;
        uint32_t a[4];
        load_matrices(a, x.rows[m * 16 + matrix % 2 * 8 + row] + k + matrix / 2 * 8);
        multiply_halves<W::kIsF16>(sums[m][0], a, b[0], b[1]);
        multiply_halves<W::kIsF16>(sums[m][1], a, b[2], b[3]);
      }
    }
  }
};

#define BP_CUDA_TILE_CASE(NAME) \
  case BP_DTYPE_##NAME:         \
    return {"tile_product_" #NAME, tile_product<HalfTile<BP_DTYPE_##NAME>>};

}  // namespace bp::cuda
