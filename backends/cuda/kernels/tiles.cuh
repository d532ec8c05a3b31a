#pragma once
// Products of many rows on tensor cores. A block computes 64 rows by 16 columns of y for each of
// its warps. A step takes 128 columns of x: its rows, in the form of the tile already, come into
// shared memory by asynchronous copies one step ahead; each warp has the weights of its own columns
// one step ahead in registers, as they are stored, decodes them to shared memory of its own and
// multiplies. So no weight is decoded twice within a block, and warps meet once a step.

#include "backends/cuda/kernels/product_place.cuh"
#include "backends/cuda/kernels/ptx.cuh"

namespace bp::cuda {

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

// Of a warp: 16 rows by 8 columns of y each, as mma gives them.
using TileSums = float[4][2][4];

// All warps' sums, by way of shared memory ([64][columns of the block + 8]), so that neighbouring
// threads store neighbouring columns.
__device__ __forceinline__ void store_tile(const ProductParams& p, const TileOfRows& tile,
                                           uint32_t block, float* results, const TileSums& sums) {
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

// What a block's warps have in shared memory, and how it is multiplied, is the tile's: T has
//   X, Weights                      of a step: rows of x, and the columns of one warp
//   Raw                             registers of a chunk of 32 columns of x of a weight's row
//   n_chunks(matrix), load(matrix, row, chunk, raw), store(raw, chunk, column, weights)
//   copy(params, x_rows, n_rows, step, x)          by asynchronous copies
//   multiply(x, weights, n_rows, sums)             a step
template <class T>
__global__ void __launch_bounds__(256) tile_product(const __grid_constant__ ProductsParams all) {
  begin_in_order();
  const PartOfBlock part_of_all = part_of_block(all, blockIdx.x);
  const ProductParams& p = part_of_all.p;
  const uint32_t block = part_of_all.block;
  BP_DYNAMIC_SHARED(shared_bytes);
  __shared__ uint32_t x_rows[kTileRows];
  auto* const x_tiles = reinterpret_cast<typename T::X*>(shared_bytes);  // [2]
  auto& w_tile = reinterpret_cast<typename T::Weights*>(x_tiles + 2)[warp_index()];
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
  const uint32_t n_chunks = T::n_chunks(p.weight);
  typename T::Raw raw[2];
  const auto load_weights = [&](uint32_t step) {
    BP_UNROLL
    for (uint32_t i = 0; i < 2; ++i) {
      const uint32_t chunk = step * 4 + own_chunk + i;
      if (chunk < n_chunks) T::load(p.weight, weights, chunk, raw[i]);
    }
  };
  const auto store_weights = [&](uint32_t step) {
    BP_UNROLL
    for (uint32_t i = 0; i < 2; ++i) {
      const uint32_t chunk = step * 4 + own_chunk + i;
      if (chunk < n_chunks) T::store(raw[i], chunk, own_column, w_tile);
    }
  };

  const uint32_t n_steps = (p.weight.n_columns + kTileDepth - 1) / kTileDepth;
  const uint32_t begin = blockIdx.z * n_steps / p.n_splits;
  const uint32_t end = (blockIdx.z + 1) * n_steps / p.n_splits;
  const bool has_tail = n_chunks % 4 != 0;
  TileSums sums = {};
  T::copy(p, x_rows, tile.n, begin, x_tiles[0]);
  close_copies();
  load_weights(begin);
  for (uint32_t step = begin; step < end; ++step) {
    wait_for_copies<0>();
    __syncthreads();
    if (step + 1 < end) T::copy(p, x_rows, tile.n, step + 1, x_tiles[(step + 1 - begin) % 2]);
    close_copies();
    if (has_tail && step + 1 == n_steps) {  // zeros for the chunks that there are not
      for (uint32_t i = lane_index(); i < sizeof w_tile / 16; i += kWarp) {
        reinterpret_cast<uint4*>(&w_tile)[i] = {0, 0, 0, 0};
      }
      __syncwarp();
    }
    store_weights(step);
    if (step + 1 < end) load_weights(step + 1);
    __syncwarp();
    T::multiply(x_tiles[(step - begin) % 2], w_tile, tile.n, sums);
    __syncwarp();
  }
  __syncthreads();
  store_tile(p, tile, block, reinterpret_cast<float*>(shared_bytes), sums);
}

}  // namespace bp::cuda
