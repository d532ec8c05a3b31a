#pragma once
// Where a warp of product_rows and packed_rows works, and how its sums become values of y.

#include "backends/cuda/kernels/activation.cuh"
#include "backends/cuda/kernels/product.hpp"

namespace bp::cuda {

// The matrix that an id means; ids are cut to those there are.
__device__ __forceinline__ uint32_t matrix_of_id(float id, uint32_t n_matrices) {
  if (!(id > 0)) return 0;
  const auto last = static_cast<float>(n_matrices - 1);
  return static_cast<uint32_t>(id < last ? id : last);
}

__device__ __forceinline__ uint32_t matrix_of_pair(const ProductParams& p, uint32_t pair) {
  const uint64_t row = pair / p.n_groups;
  const uint32_t g = pair % p.n_groups;
  return p.ids.data == nullptr ? g : matrix_of_id(p.ids.data[row * p.ids.stride + g], p.n_matrices);
}

// The part that a block of columns belongs to.
struct PartOfBlock {
  const ProductParams& p;
  uint32_t block;  // among the part's own
};
__device__ __forceinline__ PartOfBlock part_of_block(const ProductsParams& all, uint32_t block) {
  uint32_t i = 0;
  while (i + 1 < all.n_parts && block >= all.first_block[i + 1]) ++i;
  return {all.parts[i], block - all.first_block[i]};
}

struct ProductPlace {
  uint32_t first_row, n_rows;  // of y; with groups one pair
  uint32_t column;             // of y, the first of the warp's
  uint32_t n_columns;          // of y, of the warp; those of `up` follow, where there is one
  uint32_t slice;              // which part of x's columns
  uint64_t first_weight_row;   // that gives column 0
  const float* bias;           // of column 0, or null
};

// Blocks of a grid: columns by rows; with groups pairs by columns, since there may be more pairs
// than a grid's second dimension holds.
__device__ __forceinline__ uint32_t column_block(const ProductsParams& all) {
  return all.parts[0].n_groups > 0 ? blockIdx.y : blockIdx.x;
}

template <uint32_t kRows, uint32_t kColumns>
__device__ __forceinline__ ProductPlace place_of(const ProductParams& p, uint32_t block) {
  const bool has_groups = p.n_groups > 0;
  const uint32_t row_block = has_groups ? blockIdx.x : blockIdx.y;
  const uint32_t n_teams = kProductWarps / p.n_slices;
  ProductPlace at;
  at.n_columns = p.up == nullptr ? kColumns : kColumns / 2;
  at.column = (block * n_teams + warp_index() / p.n_slices) * at.n_columns;
  at.slice = warp_index() % p.n_slices;
  at.bias = p.epilogue.bias;
  if (has_groups) {
    at.first_row = row_block;
    at.n_rows = 1;
    at.first_weight_row = static_cast<uint64_t>(matrix_of_pair(p, row_block)) * p.n_columns;
    if (at.bias != nullptr) at.bias += at.first_weight_row;
  } else {
    at.first_row = row_block * kRows;
    at.n_rows = min(kRows, p.n_rows - at.first_row);
    at.first_weight_row = p.first_column;
  }
  return at;
}

// The row of the weight for column c of the warp's; those behind the last one are computed with it
// and not stored.
__device__ __forceinline__ const uint8_t* weight_row(const ProductParams& p, const ProductPlace& at,
                                                     uint32_t c) {
  const bool is_up = c >= at.n_columns;
  const uint64_t column = min(at.column + (is_up ? c - at.n_columns : c), p.n_columns - 1);
  if (is_up) return p.up + column * p.weight.row_bytes;
  return p.weight.data + (at.first_weight_row + column) * p.weight.row_bytes;
}

// The row of x, prepared or not, for row r of y; with groups for a pair.
__device__ __forceinline__ uint64_t x_row(const ProductParams& p, uint32_t r) {
  return p.n_groups > 0 && p.x_is_shared != 0 ? r / p.n_groups : r;
}

__device__ __forceinline__ float* y_row(const ProductParams& p, uint32_t r) {
  if (p.n_groups == 0) return p.y.data + static_cast<uint64_t>(r) * p.y.stride;
  return p.y.data + static_cast<uint64_t>(r / p.n_groups) * p.y.stride +
         r % p.n_groups * p.n_columns;
}

// sums[c * kRows + r] of all lanes and slices, added in a fixed order, finished and stored.
template <uint32_t kRows, uint32_t kColumns>
__device__ __forceinline__ void store_columns(const ProductParams& p, const ProductPlace& at,
                                              float (&sums)[kRows * kColumns]) {
  constexpr uint32_t kSums = kRows * kColumns;
  __shared__ float partials[kProductWarps][kSums];
  float sum = warp_sums(sums);
  const uint32_t index = index_of_sum<kSums>();
  const bool is_keeper = lane_index() % (kWarp / kSums) == 0;
  if (p.n_slices > 1) {
    if (is_keeper) partials[warp_index()][index] = sum;
    __syncthreads();
    if (at.slice != 0) return;
    sum = 0;
    for (uint32_t s = 0; s < p.n_slices; ++s) sum += partials[warp_index() + s][index];
  }
  const uint32_t r = index % kRows, c = index / kRows;
  const bool is_up = c >= at.n_columns;
  const uint32_t column = at.column + (is_up ? c - at.n_columns : c);
  Epilogue epilogue = p.epilogue;
  epilogue.bias = is_up ? p.up_bias : at.bias;
  float y = finish(epilogue, sum, min(column, p.n_columns - 1));
  if (p.up != nullptr) {
    const float up = __shfl_xor_sync(kAllLanes, y, kWarp / 2);  // half of all sums further
    y = activate(p.gate_activation, y) * up;
  }
  if (!is_keeper || is_up || r >= at.n_rows || column >= p.n_columns) return;
  y_row(p, at.first_row + r)[column] = y;
}

}  // namespace bp::cuda
