#pragma once

#include "backends/cuda/kernels/flash.hpp"
#include "backends/cuda/kernels/flash_tile.cuh"

namespace bp::cuda {

// The scores and sums of 16 query rows of a warp, in the registers of matrix products: a lane has
// rows lane / 4 and + 8, of each group of eight columns 2 * (lane % 4) and the next.
template <uint32_t kMaxV>
struct FlashRows {
  float largest[2] = {-INFINITY, -INFINITY};  // NaNs are passed over and come through exp
  float denominator[2] = {};                  // the lane's own columns
  float sums[kMaxV / 8][4] = {};
};

__device__ __forceinline__ float exp_of(float x) {
  return exp2_fast(x * 1.44269504f);
}
// The largest and the sum of a row's four lanes.
__device__ __forceinline__ float largest_of_row(float x) {
  x = fmaxf(x, __shfl_xor_sync(kAllLanes, x, 1));
  return fmaxf(x, __shfl_xor_sync(kAllLanes, x, 2));
}
__device__ __forceinline__ float sum_of_row(float x) {
  x += __shfl_xor_sync(kAllLanes, x, 1);
  return x + __shfl_xor_sync(kAllLanes, x, 2);
}

// Where a matrix of four begins, for the row address of a lane: rows first, or columns first.
struct LaneOfMatrix {
  uint32_t row, column;
};
__device__ __forceinline__ LaneOfMatrix rows_first() {
  const uint32_t m = lane_index() / 8, r = lane_index() % 8;
  return {m % 2 * 8 + r, m / 2 * 8};
}
__device__ __forceinline__ LaneOfMatrix columns_first() {
  const uint32_t m = lane_index() / 8, r = lane_index() % 8;
  return {m / 2 * 8 + r, m % 2 * 8};
}

// scores[f] = the rows' queries by positions [first + 8 * f, + 8) of the tile.
template <bool kIsF16>
__device__ __forceinline__ void multiply_keys(const uint16_t* q, const uint16_t* k, uint32_t stride,
                                              uint32_t n_columns, uint32_t first, uint32_t n_frags,
                                              float (&scores)[8][4]) {
  BP_UNROLL
  for (uint32_t f = 0; f < 8; ++f) {
    BP_UNROLL
    for (uint32_t i = 0; i < 4; ++i) scores[f][i] = 0;
  }
  const LaneOfMatrix of_q = rows_first(), of_k = columns_first();
  for (uint32_t d = 0; d < n_columns; d += 16) {
    uint32_t a[4];
    load_matrices(a, q + of_q.row * stride + d + of_q.column);
    BP_UNROLL
    for (uint32_t f = 0; f < 8; f += 2) {
      if (f >= n_frags) break;
      uint32_t b[4];
      load_matrices(b, k + (first + f * 8 + of_k.row) * stride + d + of_k.column);
      multiply_halves<kIsF16>(scores[f], a, b[0], b[1]);
      multiply_halves<kIsF16>(scores[f + 1], a, b[2], b[3]);
    }
  }
}

// The softmax's weights of the positions in place of their scores; what was summed is scaled to the
// new largest score. is_edge: not every row sees all of them.
template <uint32_t kMaxV>
__device__ __forceinline__ void weigh(const AttendParams& p, const Positions (&seen)[2],
                                      bool is_edge, uint32_t first_position, uint32_t n_frags,
                                      float (&scores)[8][4], FlashRows<kMaxV>& rows) {
  float top[2] = {-INFINITY, -INFINITY};
  BP_UNROLL
  for (uint32_t f = 0; f < 8; ++f) {
    if (f >= n_frags) break;
    BP_UNROLL
    for (uint32_t i = 0; i < 4; ++i) {
      scores[f][i] *= p.scale;
      if (p.softcap != 0) scores[f][i] = soft_cap(p.softcap, scores[f][i]);
    }
  }
  if (is_edge) {
    BP_UNROLL
    for (uint32_t f = 0; f < 8; ++f) {
      BP_UNROLL
      for (uint32_t i = 0; i < 4; ++i) {
        const uint32_t position = first_position + f * 8 + lane_index() % 4 * 2 + i % 2;
        const bool is_seen = position >= seen[i / 2].begin && position < seen[i / 2].end;
        if (!is_seen) scores[f][i] = -INFINITY;
      }
    }
  }
  BP_UNROLL
  for (uint32_t f = 0; f < 8; ++f) {
    if (f >= n_frags) break;
    BP_UNROLL
    for (uint32_t i = 0; i < 4; ++i) top[i / 2] = fmaxf(top[i / 2], scores[f][i]);
  }
  float base[2], rescale[2];
  BP_UNROLL
  for (uint32_t h = 0; h < 2; ++h) {
    const float largest = fmaxf(rows.largest[h], largest_of_row(top[h]));
    // All scores -inf or NaN so far: their weights are theirs to the power of e.
    base[h] = largest == -INFINITY ? 0 : largest;
    rescale[h] = exp_of(rows.largest[h] - base[h]);
    rows.largest[h] = largest;
    rows.denominator[h] *= rescale[h];
  }
  BP_UNROLL
  for (uint32_t f = 0; f < 8; ++f) {
    if (f >= n_frags) break;
    BP_UNROLL
    for (uint32_t i = 0; i < 4; ++i) {
      scores[f][i] = exp_of(scores[f][i] - base[i / 2]);
      rows.denominator[i / 2] += scores[f][i];
    }
  }
  BP_UNROLL
  for (uint32_t f = 0; f < kMaxV / 8; ++f) {
    BP_UNROLL
    for (uint32_t i = 0; i < 4; ++i) rows.sums[f][i] *= rescale[i / 2];
  }
}

template <bool kIsF16, uint32_t kMaxV>
__device__ __forceinline__ void add_values(const uint16_t* v, uint32_t stride, uint32_t n_columns,
                                           uint32_t first, uint32_t n_frags,
                                           const float (&weights)[8][4], FlashRows<kMaxV>& rows) {
  const LaneOfMatrix of_v = rows_first();
  BP_UNROLL
  for (uint32_t f = 0; f < 8; f += 2) {
    if (f >= n_frags) break;
    const uint32_t a[4] = {pack_halves<kIsF16>(weights[f][0], weights[f][1]),
                           pack_halves<kIsF16>(weights[f][2], weights[f][3]),
                           pack_halves<kIsF16>(weights[f + 1][0], weights[f + 1][1]),
                           pack_halves<kIsF16>(weights[f + 1][2], weights[f + 1][3])};
    const uint16_t* at = v + (first + f * 8 + of_v.row) * stride + of_v.column;
    BP_UNROLL
    for (uint32_t d = 0; d < kMaxV; d += 16) {
      if (d >= n_columns) break;
      uint32_t b[4];
      load_matrices_transposed(b, at + d);
      multiply_halves<kIsF16>(rows.sums[d / 8], a, b[0], b[1]);
      multiply_halves<kIsF16>(rows.sums[d / 8 + 1], a, b[2], b[3]);
    }
  }
}

// Whether the warp's positions of a tile have values that are not finite.
template <bool kIsF16>
__device__ __forceinline__ bool any_not_finite(const uint16_t* v, uint32_t stride,
                                               uint32_t n_columns, uint32_t first,
                                               uint32_t n_frags) {
  bool found = false;
  for (uint32_t r = 0; r < 8 * n_frags; ++r) {
    const auto* const row = reinterpret_cast<const uint32_t*>(v + (first + r) * stride);
    for (uint32_t i = lane_index(); i < n_columns / 2; i += kWarp) {
      found = found || any_not_finite<kIsF16>(row[i]);
    }
  }
  return __any_sync(kAllLanes, found);
}

// As add_values, but what a row does not see is passed over: zero times NaN would be NaN.
template <bool kIsF16, uint32_t kMaxV>
__device__ __forceinline__ void add_seen_values(const uint16_t* v, uint32_t stride,
                                                uint32_t n_columns, const Positions (&seen)[2],
                                                uint32_t tile_position, uint32_t first,
                                                uint32_t n_frags, const float (&weights)[8][4],
                                                FlashRows<kMaxV>& rows) {
  BP_NO_UNROLL
  for (uint32_t r = 0; r < 8 * n_frags; ++r) {
    const uint32_t position = tile_position + first + r;
    const uint16_t* at = v + (first + r) * stride + lane_index() % 4 * 2;
    BP_UNROLL
    for (uint32_t h = 0; h < 2; ++h) {
      float own = 0;  // of r / 8, found by limits: an index would put the weights into memory
      BP_UNROLL
      for (uint32_t f = 0; f < 8; ++f) {
        if (r >= 8 * f) own = r % 2 == 0 ? weights[f][2 * h] : weights[f][2 * h + 1];
      }
      const float weight = __shfl_sync(kAllLanes, own, lane_index() / 4 * 4 + r % 8 / 2);
      if (position < seen[h].begin || position >= seen[h].end) continue;
      BP_UNROLL
      for (uint32_t f = 0; f < kMaxV / 8; ++f) {
        if (f * 8 >= n_columns) break;
        rows.sums[f][2 * h] += weight * value_of_half<kIsF16>(at[f * 8]);
        rows.sums[f][2 * h + 1] += weight * value_of_half<kIsF16>(at[f * 8 + 1]);
      }
    }
  }
}

// What the warps have of each row, in shared memory.
struct FlashPartials {
  float* largest;      // [warps * 16]
  float* denominator;  // [warps * 16]
  float* sums;         // [warps * 16][stride]
  uint32_t stride;
};

template <uint32_t kMaxV>
__device__ __forceinline__ void store_partials(const FlashRows<kMaxV>& rows, uint32_t n_columns,
                                               const FlashPartials& out) {
  BP_UNROLL
  for (uint32_t h = 0; h < 2; ++h) {
    const float denominator = sum_of_row(rows.denominator[h]);
    const uint32_t row = warp_index() * 16 + h * 8 + lane_index() / 4;
    if (lane_index() % 4 == 0) {
      out.largest[row] = rows.largest[h];
      out.denominator[row] = denominator;
    }
    BP_UNROLL
    for (uint32_t f = 0; f < kMaxV / 8; ++f) {
      if (f * 8 >= n_columns) break;
      float* at = out.sums + row * out.stride + f * 8 + lane_index() % 4 * 2;
      at[0] = rows.sums[f][2 * h];
      at[1] = rows.sums[f][2 * h + 1];
    }
  }
}

// Partials that have seen nothing, or nothing above -inf, have no weight.
__device__ __forceinline__ float weight_of(float largest, float denominator, float top) {
  const float base = largest == -INFINITY ? 0 : largest;
  return denominator == 0 ? 0 : exp_of(base - top);
}

// Where the result of a query row goes, and what has a part in its softmax beside positions.
struct FlashTarget {
  const AttendParams& p;
  const FlashItem& tile;
  uint32_t kv_head, n_heads;

  [[nodiscard]] __device__ uint32_t head_of(uint32_t row) const {
    return kv_head * n_heads + row % n_heads;
  }
  // A score without a value; -inf, which weighs nothing, where there is none or fold_splits adds
  // it.
  [[nodiscard]] __device__ float sink_of(uint32_t row) const {
    return p.sinks != nullptr && tile.n_splits == 1 ? p.sinks[head_of(row)] : -INFINITY;
  }
  [[nodiscard]] __device__ float* output(uint32_t row) const {
    const uint64_t token = tile.first_token + row / n_heads;
    return p.o.data + token * p.o.stride + head_of(row) * p.v.head_dim;
  }
  // Of a sequence that is split.
  [[nodiscard]] __device__ float* part(uint32_t row) const {
    return split_of(p, tile.slot + row / n_heads * tile.n_splits + tile.split, head_of(row));
  }
};

// The 16 rows that a warp has to itself, from its registers. As rows that warps share are stored.
template <uint32_t kMaxV>
__device__ __forceinline__ void store_rows(const FlashTarget& target, uint32_t first_row,
                                           uint32_t n_rows, const FlashRows<kMaxV>& rows) {
  const AttendParams& p = target.p;
  BP_UNROLL
  for (uint32_t h = 0; h < 2; ++h) {
    const float own = sum_of_row(rows.denominator[h]);
    const uint32_t row = first_row + h * 8 + lane_index() / 4;
    if (row >= n_rows) continue;
    const float sink = target.sink_of(row);
    const float top = fmaxf(sink, rows.largest[h]), base = top == -INFINITY ? 0 : top;
    const float weight = weight_of(rows.largest[h], own, base);
    const float denominator = exp_of(sink - base) + weight * own;
    const bool is_part = target.tile.n_splits > 1;
    float* const to = is_part ? target.part(row) + 2 : target.output(row);
    if (is_part && lane_index() % 4 == 0) to[-2] = top, to[-1] = denominator;
    BP_UNROLL
    for (uint32_t f = 0; f < kMaxV / 8; ++f) {
      BP_UNROLL
      for (uint32_t i = 0; i < 2; ++i) {
        const uint32_t d = f * 8 + lane_index() % 4 * 2 + i;
        const float sum = weight != 0 ? weight * rows.sums[f][2 * h + i] : 0;
        if (d < p.v.head_dim) to[d] = is_part ? sum : sum / denominator;
      }
    }
  }
}

template <bp_dtype kKeys, bp_dtype kValues, uint32_t kMaxV>
__global__ void __launch_bounds__(kFlashWarps* kWarp)
    flash_attend(const __grid_constant__ AttendParams p) {
  using Tile = FlashTile<kKeys, kValues>;
  BP_DYNAMIC_SHARED(shared_bytes);
  if (blockIdx.x >= *p.work.n_items) return;
  const FlashItem tile = p.work.items[blockIdx.x];
  const FlashShapes shapes = flash_shapes(p.k.head_dim, p.v.head_dim);
  const uint32_t n_heads = p.n_heads / p.k.n_heads;  // that share the KV head
  const uint32_t kv_head = blockIdx.y;
  const uint32_t n_rows = tile.n_tokens * n_heads;
  if (p.step->is_running[tile.sequence] == 0) {
    if (tile.n_splits == 1) write_zeros(p, tile, kv_head, n_heads);
    return;
  }
  auto* const q = reinterpret_cast<uint16_t*>(shared_bytes);  // [64][k_stride]
  uint8_t* const stages = shared_bytes + kFlashRows * shapes.k_stride * 2;
  load_queries<Tile::kKeysAreF16>(p, tile, kv_head, n_heads, shapes, q);

  // 16 rows for each warp, or all warps the same rows and each a quarter of the positions.
  const bool shares_rows = n_rows <= 16;
  const uint32_t first_row = shares_rows ? 0 : warp_index() * 16;
  const uint32_t first = shares_rows ? warp_index() * 16 : 0, n_frags = shares_rows ? 2 : 8;
  Positions seen[2];
  BP_UNROLL
  for (uint32_t h = 0; h < 2; ++h) {
    const uint32_t row = first_row + h * 8 + lane_index() / 4;
    seen[h] = {0, 0};
    if (row < n_rows) seen[h] = visible(p, tile.first_token + row / n_heads, tile.sequence);
  }
  const Positions of_first = visible(p, tile.first_token, tile.sequence);
  const Positions of_last = visible(p, tile.first_token + tile.n_tokens - 1, tile.sequence);
  const Positions all{of_first.begin, of_last.end};
  const Positions common{of_last.begin, of_first.end};  // that every row sees
  const uint32_t first_tile = all.begin / kFlashPositions;
  const uint32_t n_tiles = (all.end + kFlashPositions - 1) / kFlashPositions - first_tile;
  const uint32_t begin = first_tile + tile.split * n_tiles / tile.n_splits;
  const uint32_t end = first_tile + (tile.split + 1) * n_tiles / tile.n_splits;

  Tile tiles(p, shapes, stages, tile.sequence, kv_head, all);
  FlashRows<kMaxV> rows;
  if (begin < end) tiles.copy(begin, 0);
  close_copies();
  for (uint32_t t = begin; t < end; ++t) {
    const uint32_t stage = (t - begin) % p.n_stages;
    wait_for_copies<0>();
    __syncthreads();
    tiles.widen();
    if (Tile::kIsWidened || p.n_stages > 1) {
      if (t + 1 < end) tiles.copy(t + 1, (t + 1 - begin) % p.n_stages);
      close_copies();
    }
    if (first_row < n_rows) {
      float scores[8][4];
      multiply_keys<Tile::kKeysAreF16>(q + first_row * shapes.k_stride, tiles.k(stage),
                                       shapes.k_stride, shapes.k_columns, first, n_frags, scores);
      const uint32_t tile_begin = t * kFlashPositions, tile_end = tile_begin + kFlashPositions;
      const bool is_edge = tile_begin < common.begin || tile_end > common.end;
      weigh(p, seen, is_edge, tile_begin + first, n_frags, scores, rows);
      const bool differs =
          max(tile_begin, all.begin) < common.begin || min(tile_end, all.end) > common.end;
      const uint16_t* v = tiles.v(stage);
      if (differs && any_not_finite<Tile::kValuesAreF16>(v, shapes.v_stride, shapes.v_columns,
                                                         first, n_frags)) {
        add_seen_values<Tile::kValuesAreF16>(v, shapes.v_stride, shapes.v_columns, seen, tile_begin,
                                             first, n_frags, scores, rows);
      } else {
        add_values<Tile::kValuesAreF16>(v, shapes.v_stride, shapes.v_columns, first, n_frags,
                                        scores, rows);
      }
    }
    if (!Tile::kIsWidened && p.n_stages == 1 && t + 1 < end) {
      __syncthreads();
      tiles.copy(t + 1, 0);
      close_copies();
    }
  }
  const FlashTarget target{p, tile, kv_head, n_heads};
  if (!shares_rows) {
    store_rows(target, first_row, n_rows, rows);
    return;
  }
  __syncthreads();

  auto* const floats = reinterpret_cast<float*>(shared_bytes);
  constexpr uint32_t kSlots = kFlashWarps * 16;
  const FlashPartials partials{floats, floats + kSlots, floats + 2 * kSlots, shapes.v_columns + 4};
  store_partials(rows, shapes.v_columns, partials);
  __syncthreads();
  for (uint32_t i = threadIdx.x; i < n_rows * p.v.head_dim; i += blockDim.x) {
    const uint32_t row = i / p.v.head_dim, d = i % p.v.head_dim;
    const float sink = target.sink_of(row);
    float top = sink;
    BP_UNROLL
    for (uint32_t s = row; s < kSlots; s += 16) top = fmaxf(top, partials.largest[s]);
    const float base = top == -INFINITY ? 0 : top;
    float denominator = exp_of(sink - base), sum = 0;
    BP_UNROLL
    for (uint32_t s = row; s < kSlots; s += 16) {
      const float weight = weight_of(partials.largest[s], partials.denominator[s], base);
      denominator += weight * partials.denominator[s];
      if (weight != 0) sum += weight * partials.sums[s * partials.stride + d];
    }
    if (tile.n_splits == 1) {
      target.output(row)[d] = sum / denominator;
      continue;
    }
    float* const out = target.part(row);
    if (d == 0) out[0] = top, out[1] = denominator;
    out[2 + d] = sum;
  }
}

template <bp_dtype kKeys, bp_dtype kValues>
Kernel<AttendParams> flash_kernel_of(const AttendParams& p, const char* name) {
  if (p.k.dtype != kKeys || p.v.dtype != kValues) return {};
  if (p.v.head_dim <= 128) return {name, flash_attend<kKeys, kValues, 128>};
  return {name, flash_attend<kKeys, kValues, kMaxFlashDim>};
}

}  // namespace bp::cuda
