#pragma once
// Tiles (tiles.cuh) of bytes: x and weights in planes are signed bytes with scales. Sums of 32
// columns, of 16 where the weight has a scale for 16, are whole numbers and exact; scaled, they are
// added in the order of the columns.

#include "backends/cuda/kernels/formats/families.hpp"
#include "backends/cuda/kernels/formats/packed_of_256.cuh"
#include "backends/cuda/kernels/tiles.cuh"

namespace bp::cuda {

// Rows in shared memory are 16 bytes longer than their values, so that eight of them lie in
// different banks.
inline constexpr uint32_t kByteTileStride = kTileDepth + 16;
inline constexpr uint32_t kRunsOfStep = kTileDepth / kRun;
inline constexpr uint32_t kBlocksOfStep = kTileDepth / kChunk;  // of 32 columns

// Whether the two runs of 32 columns may have two scales.
[[nodiscard]] constexpr bool scales_by_run(bp_dtype dtype) {
  return dtype == BP_DTYPE_Q2_K || dtype == BP_DTYPE_Q3_K || dtype == BP_DTYPE_Q6_K;
}

// 1.5 * 2^23: a whole number below 2^22, added to its bits, is added to its value.
inline constexpr uint32_t kWholeBits = 0x4b400000u;
__device__ __forceinline__ float whole_value(int32_t bits) {
  return __uint_as_float(static_cast<uint32_t>(bits)) - 12582912.0f;
}

template <bp_dtype kDtype>
struct ByteTile {
  using P = Packed<kDtype>;
  using Raw = typename P::Raw;
  struct alignas(16) X {
    uint8_t rows[kTileRows][kByteTileStride];
    float4 blocks[kTileRows][kBlocksOfStep + 1];  // {scale, scale * sum} of both runs
  };
  struct alignas(16) Weights {
    uint8_t columns[kTileColumnsOfWarp][kByteTileStride];
    float scales[kRunsOfStep][kTileColumnsOfWarp];
    float minimums[kRunsOfStep][kTileColumnsOfWarp];
  };
  static_assert(sizeof(X) == kByteTileXBytes && sizeof(Weights) == kByteTileWarpBytes);

  __device__ static uint32_t n_chunks(const Matrix& m) { return m.n_columns / kChunk; }
  __device__ static void load(const Matrix& m, const uint8_t* row, uint32_t chunk, Raw& raw) {
    P::load({row, m.n_columns / P::kElements}, chunk, raw);
  }
  __device__ static void store(const Raw& raw, uint32_t chunk, uint32_t column, Weights& to) {
    Chunk w;
    P::unpack(raw, chunk, w);
    BP_UNROLL
    for (uint32_t r = 0; r < 2; ++r) {
      const uint32_t first = P::first_of_run0(chunk) % kTileDepth + r * P::kRunDistance;
      *reinterpret_cast<uint4*>(to.columns[column] + first) = {w.q[4 * r], w.q[4 * r + 1],
                                                               w.q[4 * r + 2], w.q[4 * r + 3]};
      to.scales[first / kRun][column] = w.scale[r];
      if constexpr (P::kHasMinimum) to.minimums[first / kRun][column] = w.minimum[r];
    }
  }

  // 16 bytes at a time: values, then scales; zeros for those behind the last column.
  __device__ static void copy(const ProductParams& p, const uint32_t* x_rows, uint32_t n_rows,
                              uint32_t step, X& to) {
    constexpr uint32_t kValues = kTileDepth / 16, kPieces = kValues + kBlocksOfStep;
    const uint32_t n_used = (n_rows + 15) / 16 * 16 * kPieces, n_in = p.weight.n_columns;
    for (uint32_t i = threadIdx.x; i < n_used; i += blockDim.x) {
      const uint32_t row = i / kPieces, piece = i % kPieces;
      const uint8_t* const x =
          p.prepared.data + static_cast<uint64_t>(x_rows[row]) * p.prepared.stride_bytes;
      if (piece < kValues) {
        const uint32_t column = step * kTileDepth + piece * 16;
        copy_async(to.rows[row] + piece * 16, x + column, row < n_rows && column < n_in ? 16 : 0);
      } else {
        const uint32_t own = piece - kValues, block = step * kBlocksOfStep + own;
        copy_async(to.blocks[row] + own, x + n_in + block * sizeof(float4),
                   row < n_rows && block * kChunk < n_in ? 16 : 0);
      }
    }
  }

  // Of one run of the weights, or of the first of two with the same: the columns of a lane's sums.
  struct Scales {
    float scale[2][2], minimum[2][2];
  };
  __device__ static void read_scales(const Weights& w, uint32_t run, Scales& out) {
    BP_UNROLL
    for (uint32_t n = 0; n < 2; ++n) {
      const uint32_t column = n * 8 + lane_index() % 4 * 2;
      const auto s = *reinterpret_cast<const float2*>(&w.scales[run][column]);
      out.scale[n][0] = s.x, out.scale[n][1] = s.y;
      if constexpr (P::kHasMinimum) {
        const auto m = *reinterpret_cast<const float2*>(&w.minimums[run][column]);
        out.minimum[n][0] = m.x, out.minimum[n][1] = m.y;
      }
    }
  }

  // sums += 32 columns of 16 rows by 8 columns; of x's rows {scale, scale * sum of run 0, scale,
  // scale * sum of run 1}.
  __device__ static void add_block(const uint32_t (&a)[4], const uint32_t (&b)[2],
                                   const Scales (&w)[2], uint32_t n, const float4 (&x)[2],
                                   float (&sums)[4]) {
    if constexpr (scales_by_run(kDtype)) {
      int32_t low[4], high[4];
      mma_s8_16(low, {a[0], a[1]}, b[0], kWholeBits);
      mma_s8_16(high, {a[2], a[3]}, b[1], kWholeBits);
      BP_UNROLL
      for (uint32_t i = 0; i < 4; ++i) {
        const uint32_t c = i % 2;
        const float sum =
            w[0].scale[n][c] * whole_value(low[i]) + w[1].scale[n][c] * whole_value(high[i]);
        sums[i] += x[i / 2].x * sum;
        if constexpr (P::kHasMinimum) {
          sums[i] -= w[0].minimum[n][c] * x[i / 2].y + w[1].minimum[n][c] * x[i / 2].w;
        }
      }
    } else {
      int32_t whole[4];
      mma_s8_32(whole, a, b, kWholeBits);
      BP_UNROLL
      for (uint32_t i = 0; i < 4; ++i) {
        const uint32_t c = i % 2;
        sums[i] += x[i / 2].x * (w[0].scale[n][c] * whole_value(whole[i]));
        if constexpr (P::kHasMinimum) {
          sums[i] -= w[0].minimum[n][c] * (x[i / 2].y + x[i / 2].w);
        }
      }
    }
  }

  __device__ static void multiply(const X& x, const Weights& w, uint32_t n_rows, TileSums& sums) {
    const uint32_t matrix = lane_index() / 8, row = lane_index() % 8, group = lane_index() / 4;
    BP_UNROLL
    for (uint32_t block = 0; block < kBlocksOfStep; ++block) {
      uint32_t b[4];
      load_matrices(b, w.columns[matrix / 2 * 8 + row] + block * 32 + matrix % 2 * 16);
      const uint32_t b0[2] = {b[0], b[1]}, b1[2] = {b[2], b[3]};
      Scales scales[2];
      read_scales(w, 2 * block, scales[0]);
      if constexpr (scales_by_run(kDtype)) read_scales(w, 2 * block + 1, scales[1]);
      BP_UNROLL
      for (uint32_t m = 0; m < 4; ++m) {
        if (m * 16 >= n_rows) break;
        uint32_t a[4];
        load_matrices(a, x.rows[m * 16 + matrix % 2 * 8 + row] + block * 32 + matrix / 2 * 16);
        const float4 scales_of_x[2] = {x.blocks[m * 16 + group][block],
                                       x.blocks[m * 16 + 8 + group][block]};
        add_block(a, b0, scales, 0, scales_of_x, sums[m][0]);
        add_block(a, b1, scales, 1, scales_of_x, sums[m][1]);
      }
    }
  }
};

#define BP_CUDA_BYTE_TILE_CASE(NAME) \
  case BP_DTYPE_##NAME:              \
    return {"byte_tile_product_" #NAME, tile_product<ByteTile<BP_DTYPE_##NAME>>};

}  // namespace bp::cuda
