#pragma once
// Products of many rows on tensor cores. A block computes 64 rows by 16 columns of y for each of
// its warps. A step takes 128 columns of x: its rows, in 16 bits already, come into shared memory
// by asynchronous copies one step ahead; each warp has the weights of its own columns one step
// ahead in registers, as they are stored, widens them to 16 bits in shared memory of its own and
// multiplies. So no weight is widened twice within a block, and warps meet once a step.

#include "backends/cuda/kernels/formats/packed_of_256.cuh"
#include "backends/cuda/kernels/formats/plain.cuh"
#include "backends/cuda/kernels/product_place.cuh"

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
template <float (*kWiden)(uint8_t)>
struct TileBytes {
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
  __device__ static uint32_t widen(uint32_t word, uint32_t i) {
    return pack_bf16(kWiden(static_cast<uint8_t>(word >> (16 * i))),
                     kWiden(static_cast<uint8_t>(word >> (16 * i + 8))));
  }
  __device__ static void store(const Raw& raw, uint32_t chunk, uint16_t* columns) {
    auto* to = reinterpret_cast<uint4*>(columns + chunk % 4 * 32);
    BP_UNROLL
    for (uint32_t i = 0; i < 4; ++i) {
      const uint2 e = raw.eights[i];
      to[i] = {widen(e.x, 0), widen(e.x, 1), widen(e.y, 0), widen(e.y, 1)};
    }
  }
};
template <>
struct TileWeights<BP_DTYPE_F8_E4M3> : TileBytes<e4m3_value> {};
template <>
struct TileWeights<BP_DTYPE_F8_E5M2> : TileBytes<e5m2_value> {};

// Rows of a block: where they come from and go.
struct TileOfRows {
  uint32_t first, n;          // rows of y; with groups places in the sorted pairs
  uint64_t first_weight_row;  // that gives column 0
  const float* bias;          // of column 0, or null
};

__device__ __forceinline__ TileOfRows tile_of_rows(const ProductParams& p) {
  const uint32_t t = blockIdx.y;
  if (p.n_groups == 0) {
    const uint32_t first = t * kTileRows;
    return {first, min(kTileRows, p.n_rows - first), p.first_column, p.epilogue.bias};
  }
  const uint32_t matrix = p.tiles.matrices[t];
  if (matrix >= p.n_matrices) return {0, 0, 0, nullptr};
  const uint64_t weight_row = static_cast<uint64_t>(matrix) * p.n_columns;
  const float* bias = p.epilogue.bias == nullptr ? nullptr : p.epilogue.bias + weight_row;
  return {p.tiles.first[t], p.tiles.end[t] - p.tiles.first[t], weight_row, bias};
}

// The row of y, or the pair, of a place in the tile.
__device__ __forceinline__ uint32_t row_of_place(const ProductParams& p, const TileOfRows& tile,
                                                 uint32_t place) {
  return p.n_groups == 0 ? tile.first + place : p.tiles.pairs[tile.first + place];
}

// 128 columns of the tile's rows of x; zeros for rows that there are not.
__device__ __forceinline__ void copy_rows(const ProductParams& p, const uint32_t* x_rows,
                                          uint32_t n_rows, uint32_t step, uint16_t* to) {
  constexpr uint32_t kPieces = kTileDepth / 8;  // of 16 bytes, of a row
  const uint32_t n_used = (n_rows + 15) / 16 * 16 * kPieces;
  for (uint32_t i = threadIdx.x; i < n_used; i += blockDim.x) {
    const uint32_t row = i / kPieces, piece = i % kPieces;
    const uint8_t* from = p.prepared.data +
                          static_cast<uint64_t>(x_rows[row]) * p.prepared.stride_bytes +
                          step * (kTileDepth * 2) + piece * 16;
    copy_async(to + row * kTileStride + piece * 8, from, row < n_rows ? 16 : 0);
  }
}

template <bp_dtype kDtype>
__global__ void __launch_bounds__(256) tile_product(const __grid_constant__ ProductsParams all) {
  const PartOfBlock part_of_all = part_of_block(all, blockIdx.x);
  const ProductParams& p = part_of_all.p;
  const uint32_t block = part_of_all.block;
  using W = TileWeights<kDtype>;
  BP_DYNAMIC_SHARED(shared_bytes);
  __shared__ uint32_t x_rows[kTileRows];
  auto* const x_tiles = reinterpret_cast<uint16_t*>(shared_bytes);  // [2][64][stride]
  uint16_t* const w_tile = x_tiles + 2 * kTileRows * kTileStride +
                           warp_index() * kTileColumnsOfWarp * kTileStride;  // [16][stride]
  const TileOfRows tile = tile_of_rows(p);
  if (tile.n == 0) return;
  const uint32_t column = (block * (blockDim.x / kWarp) + warp_index()) * kTileColumnsOfWarp;
  if (threadIdx.x < kTileRows) {
    const uint32_t place = min(threadIdx.x, tile.n - 1);
    x_rows[threadIdx.x] = static_cast<uint32_t>(x_row(p, row_of_place(p, tile, place)));
  }
  __syncthreads();

  // Two lanes have a column, each two neighbouring chunks of its four.
  const uint32_t own_column = lane_index() / 2, own_chunk = lane_index() % 2 * 2;
  const uint64_t weight_row = tile.first_weight_row + min(column + own_column, p.n_columns - 1);
  const uint8_t* const weights = p.weight.data + weight_row * p.weight.row_bytes;
  const uint32_t n_chunks = W::n_chunks(p.weight);
  uint16_t* const own_weights = w_tile + own_column * kTileStride;
  typename W::Raw raw[2];
  const auto load_weights = [&](uint32_t step) {
    BP_UNROLL
    for (uint32_t i = 0; i < 2; ++i) {
      const uint32_t chunk = step * 4 + own_chunk + i;
      if (chunk < n_chunks) W::load(p.weight, weights, chunk, raw[i]);
    }
  };
  const auto store_weights = [&](uint32_t step) {
    BP_UNROLL
    for (uint32_t i = 0; i < 2; ++i) {
      const uint32_t chunk = step * 4 + own_chunk + i;
      if (chunk < n_chunks) W::store(raw[i], chunk, own_weights);
    }
  };

  const uint32_t n_steps = (p.weight.n_columns + kTileDepth - 1) / kTileDepth;
  const uint32_t begin = blockIdx.z * n_steps / p.n_splits;
  const uint32_t end = (blockIdx.z + 1) * n_steps / p.n_splits;
  const bool has_tail = n_chunks % 4 != 0;
  float sums[4][2][4] = {};  // of 16 rows by 8 columns each
  copy_rows(p, x_rows, tile.n, begin, x_tiles);
  close_copies();
  load_weights(begin);
  for (uint32_t step = begin; step < end; ++step) {
    wait_for_copies<0>();
    __syncthreads();
    const uint16_t* const x_tile = x_tiles + (step - begin) % 2 * kTileRows * kTileStride;
    if (step + 1 < end) {
      copy_rows(p, x_rows, tile.n, step + 1,
                x_tiles + (step + 1 - begin) % 2 * kTileRows * kTileStride);
    }
    close_copies();
    if (has_tail && step + 1 == n_steps) {  // zeros for the chunks that there are not
      for (uint32_t i = lane_index(); i < kTileColumnsOfWarp * kTileStride / 8; i += kWarp) {
        reinterpret_cast<uint4*>(w_tile)[i] = {0, 0, 0, 0};
      }
      __syncwarp();
    }
    store_weights(step);
    if (step + 1 < end) load_weights(step + 1);
    __syncwarp();
    BP_UNROLL
    for (uint32_t k = 0; k < kTileDepth; k += 16) {
      const uint32_t matrix = lane_index() / 8, row = lane_index() % 8;
      uint32_t b[4];
      load_matrices(b, w_tile + (matrix / 2 * 8 + row) * kTileStride + k + matrix % 2 * 8);
      const uint32_t b0[2] = {b[0], b[1]}, b1[2] = {b[2], b[3]};
      BP_UNROLL
      for (uint32_t m = 0; m < 4; ++m) {
        if (m * 16 >= tile.n) break;
        uint32_t a[4];
        load_matrices(a,
                      x_tile + (m * 16 + matrix % 2 * 8 + row) * kTileStride + k + matrix / 2 * 8);
        if constexpr (W::kIsF16) {
          mma_f16(sums[m][0], a, b0);
          mma_f16(sums[m][1], a, b1);
        } else {
          mma_bf16(sums[m][0], a, b0);
          mma_bf16(sums[m][1], a, b1);
        }
      }
    }
    __syncwarp();
  }

  // By way of shared memory, so that neighbouring threads store neighbouring columns.
  __syncthreads();
  auto* const results = reinterpret_cast<float*>(shared_bytes);  // [64][n_columns + 8]
  const uint32_t n_columns = blockDim.x / kWarp * kTileColumnsOfWarp;
  const uint32_t group = lane_index() / 4, member = lane_index() % 4;
  BP_UNROLL
  for (uint32_t m = 0; m < 4; ++m) {
    BP_UNROLL
    for (uint32_t n = 0; n < 2; ++n) {
      float* at = results + (m * 16 + group) * (n_columns + 8) + warp_index() * kTileColumnsOfWarp +
                  n * 8 + member * 2;
      at[0] = sums[m][n][0], at[1] = sums[m][n][1];
      at += 8 * (n_columns + 8);
      at[0] = sums[m][n][2], at[1] = sums[m][n][3];
    }
  }
  __syncthreads();
  Epilogue epilogue = p.epilogue;
  epilogue.bias = tile.bias;
  const uint32_t first_column = block * n_columns;
  for (uint32_t i = threadIdx.x; i < tile.n * n_columns; i += blockDim.x) {
    const uint32_t place = i / n_columns, at = first_column + i % n_columns;
    if (at >= p.n_columns) continue;
    const float sum = results[place * (n_columns + 8) + i % n_columns];
    const uint32_t row = row_of_place(p, tile, place);
    if (p.n_splits > 1) {
      p.partials[(static_cast<uint64_t>(blockIdx.z) * p.n_rows + row) * p.n_columns + at] = sum;
    } else {
      y_row(p, row)[at] = finish(epilogue, sum, at);
    }
  }
}

#define BP_CUDA_TILE_CASE(NAME) \
  case BP_DTYPE_##NAME:         \
    return {"tile_product_" #NAME, tile_product<BP_DTYPE_##NAME>};

}  // namespace bp::cuda
