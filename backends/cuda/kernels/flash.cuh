#pragma once

#include "backends/cuda/kernels/flash.hpp"
#include "backends/cuda/kernels/flash_tile.cuh"

namespace bp::cuda {

// The sums of 16 query rows of a warp, in the registers of matrix products: a lane has rows
// lane / 4 and + 8, of each group of eight columns 2 * (lane % 4) and the next. Scores are such
// that 2 to their power is a weight.
template <uint32_t kMaxV>
struct FlashRows {
  float largest[2] = {-INFINITY, -INFINITY};  // NaNs are passed over and come through exp2
  float denominator[2] = {};                  // the lane's own columns
  float sums[kMaxV / 8][4] = {};
};
// Their scores at 8 * kFrags positions.
template <uint32_t kFrags>
using FlashScores = float[kFrags][4];

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

// scores[t][f] = queries of the rows' tile t of 16 by positions [8 * f, + 8) from k on.
template <bool kIsF16, uint32_t kRowTiles, uint32_t kFrags>
__device__ __forceinline__ void multiply_keys(const uint16_t* q, const uint16_t* k, uint32_t stride,
                                              uint32_t n_columns,
                                              FlashScores<kFrags> (&scores)[kRowTiles]) {
  BP_UNROLL
  for (uint32_t t = 0; t < kRowTiles; ++t) {
    BP_UNROLL
    for (uint32_t i = 0; i < 4 * kFrags; ++i) scores[t][i / 4][i % 4] = 0;
  }
  const LaneOfMatrix of_q = rows_first(), of_k = columns_first();
  BP_UNROLL
  for (uint32_t d = 0; d < n_columns; d += 16) {
    uint32_t a[kRowTiles][4];
    BP_UNROLL
    for (uint32_t t = 0; t < kRowTiles; ++t) {
      load_matrices(a[t], q + (t * 16 + of_q.row) * stride + d + of_q.column);
    }
    BP_UNROLL
    for (uint32_t f = 0; f < kFrags; f += 2) {
      uint32_t b[4];
      load_matrices(b, k + (f * 8 + of_k.row) * stride + d + of_k.column);
      BP_UNROLL
      for (uint32_t t = 0; t < kRowTiles; ++t) {
        multiply_halves<kIsF16>(scores[t][f], a[t], b[0], b[1]);
        multiply_halves<kIsF16>(scores[t][f + 1], a[t], b[2], b[3]);
      }
    }
  }
}

// The softmax's weights of the positions in place of their scores; what was summed is scaled to the
// new largest score.
template <uint32_t kFrags, uint32_t kMaxV>
__device__ __forceinline__ void weigh(FlashScores<kFrags>& scores, FlashRows<kMaxV>& rows) {
  float top[2] = {-INFINITY, -INFINITY};
  BP_UNROLL
  for (uint32_t f = 0; f < kFrags; ++f) {
    BP_UNROLL
    for (uint32_t i = 0; i < 4; ++i) top[i / 2] = fmaxf(top[i / 2], scores[f][i]);
  }
  float base[2], rescale[2];
  BP_UNROLL
  for (uint32_t h = 0; h < 2; ++h) {
    const float largest = fmaxf(rows.largest[h], largest_of_row(top[h]));
    // All scores -inf or NaN so far: their weights are 2 to the power of theirs.
    base[h] = largest == -INFINITY ? 0 : largest;
    rescale[h] = exp2_fast(rows.largest[h] - base[h]);
    rows.largest[h] = largest;
    rows.denominator[h] *= rescale[h];
  }
  BP_UNROLL
  for (uint32_t f = 0; f < kFrags; ++f) {
    BP_UNROLL
    for (uint32_t i = 0; i < 4; ++i) {
      scores[f][i] = exp2_fast(scores[f][i] - base[i / 2]);
      rows.denominator[i / 2] += scores[f][i];
    }
  }
  BP_UNROLL
  for (uint32_t f = 0; f < kMaxV / 8; ++f) {
    BP_UNROLL
    for (uint32_t i = 0; i < 4; ++i) rows.sums[f][i] *= rescale[i / 2];
  }
}

// rows[t] += weights[t] of 8 * kFrags positions by their values, from v on.
template <bool kIsF16, uint32_t kRowTiles, uint32_t kFrags, uint32_t kMaxV>
__device__ __forceinline__ void add_values(const uint16_t* v, uint32_t stride, uint32_t n_columns,
                                           const FlashScores<kFrags> (&weights)[kRowTiles],
                                           FlashRows<kMaxV> (&rows)[kRowTiles]) {
  const LaneOfMatrix of_v = rows_first();
  BP_UNROLL
  for (uint32_t f = 0; f < kFrags; f += 2) {
    uint32_t a[kRowTiles][4];
    BP_UNROLL
    for (uint32_t t = 0; t < kRowTiles; ++t) {
      const float(&low)[4] = weights[t][f], (&high)[4] = weights[t][f + 1];
      a[t][0] = pack_halves<kIsF16>(low[0], low[1]);
      a[t][1] = pack_halves<kIsF16>(low[2], low[3]);
      a[t][2] = pack_halves<kIsF16>(high[0], high[1]);
      a[t][3] = pack_halves<kIsF16>(high[2], high[3]);
    }
    const uint16_t* at = v + (f * 8 + of_v.row) * stride + of_v.column;
    BP_UNROLL
    for (uint32_t d = 0; d < kMaxV; d += 16) {
      if (d >= n_columns) break;
      uint32_t b[4];
      load_matrices_transposed(b, at + d);
      BP_UNROLL
      for (uint32_t t = 0; t < kRowTiles; ++t) {
        multiply_halves<kIsF16>(rows[t].sums[d / 8], a[t], b[0], b[1]);
        multiply_halves<kIsF16>(rows[t].sums[d / 8 + 1], a[t], b[2], b[3]);
      }
    }
  }
}

// Whether the warp's positions of a tile have values that are not finite.
template <bool kIsF16>
__device__ __forceinline__ bool any_not_finite(const uint16_t* v, uint32_t stride,
                                               uint32_t n_columns, uint32_t n_positions) {
  bool found = false;
  for (uint32_t r = 0; r < n_positions; ++r) {
    const auto* const row = reinterpret_cast<const uint32_t*>(v + r * stride);
    for (uint32_t i = lane_index(); i < n_columns / 2; i += kWarp) {
      found = found || any_not_finite<kIsF16>(row[i]);
    }
  }
  return __any_sync(kAllLanes, found);
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

__device__ __forceinline__ float sink_score(const AttendParams& p, uint32_t head) {
  return p.sinks[head] * kLog2E;
}
// Partials that have seen nothing, or nothing above -inf, have no weight.
__device__ __forceinline__ float weight_of(float largest, float denominator, float top) {
  const float base = largest == -INFINITY ? 0 : largest;
  return denominator == 0 ? 0 : exp2_fast(base - top);
}

// What a block has to do, for all of its warps: which positions its query rows see, what else has a
// part in their softmax, and where their results go.
struct FlashBlock {
  const AttendParams& p;
  const FlashItem& tile;
  const FlashShapes& shapes;
  uint32_t kv_head, n_heads, n_rows;
  Positions all, common;  // that any row sees, and every row
  uint32_t begin, end;    // tiles of positions

  [[nodiscard]] __device__ Positions seen_by(uint32_t row) const {
    if (row >= n_rows) return {0, 0};
    return visible(p, tile.first_token + row / n_heads, tile.sequence);
  }
  [[nodiscard]] __device__ uint32_t head_of(uint32_t row) const {
    return kv_head * n_heads + row % n_heads;
  }
  // A score without a value; -inf, which weighs nothing, where there is none or fold_splits adds
  // it.
  [[nodiscard]] __device__ float sink_of(uint32_t row) const {
    return p.sinks != nullptr && tile.n_splits == 1 ? sink_score(p, head_of(row)) : -INFINITY;
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
__device__ __forceinline__ FlashBlock block_of(const AttendParams& p, const FlashItem& tile,
                                               const FlashShapes& shapes, uint32_t kv_head) {
  const uint32_t n_heads = heads_together(p);
  const Positions of_first = visible(p, tile.first_token, tile.sequence);
  const Positions of_last = visible(p, tile.first_token + tile.n_tokens - 1, tile.sequence);
  const uint32_t first_tile = of_first.begin / kFlashPositions;
  const uint32_t n_tiles = divide_up(of_last.end, kFlashPositions) - first_tile;
  return {p,
          tile,
          shapes,
          kv_head,
          n_heads,
          tile.n_tokens * n_heads,
          {of_first.begin, of_last.end},
          {of_last.begin, of_first.end},
          first_tile + tile.split * n_tiles / tile.n_splits,
          first_tile + (tile.split + 1) * n_tiles / tile.n_splits};
}

// The 16 rows that a warp has to itself, from its registers. As rows that warps share are stored.
template <uint32_t kMaxV>
__device__ __forceinline__ void store_rows(const FlashBlock& block, uint32_t first_row,
                                           const FlashRows<kMaxV>& rows) {
  const AttendParams& p = block.p;
  BP_UNROLL
  for (uint32_t h = 0; h < 2; ++h) {
    const float own = sum_of_row(rows.denominator[h]);
    const uint32_t row = first_row + h * 8 + lane_index() / 4;
    if (row >= block.n_rows) continue;
    const float sink = block.sink_of(row);
    const float top = fmaxf(sink, rows.largest[h]), base = top == -INFINITY ? 0 : top;
    const float weight = weight_of(rows.largest[h], own, base);
    const float denominator = exp2_fast(sink - base) + weight * own;
    const bool is_part = block.tile.n_splits > 1;
    float* const to = is_part ? block.part(row) + 2 : block.output(row);
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

template <uint32_t kFrags>
__device__ __forceinline__ void cap_scores(float cap, FlashScores<kFrags>& scores) {
  BP_UNROLL
  for (uint32_t i = 0; i < 4 * kFrags; ++i) {
    scores[i / 4][i % 4] = soft_cap(cap, scores[i / 4][i % 4]) * kLog2E;
  }
}
// -inf at positions that a row does not see.
template <uint32_t kFrags>
__device__ __forceinline__ void hide_unseen(const FlashBlock& block, uint32_t first_row,
                                            uint32_t first_position, FlashScores<kFrags>& scores) {
  BP_UNROLL
  for (uint32_t h = 0; h < 2; ++h) {
    const Positions seen = block.seen_by(first_row + h * 8 + lane_index() / 4);
    BP_UNROLL
    for (uint32_t f = 0; f < kFrags; ++f) {
      BP_UNROLL
      for (uint32_t i = 0; i < 2; ++i) {
        const uint32_t position = first_position + f * 8 + lane_index() % 4 * 2 + i;
        const bool is_seen = position >= seen.begin && position < seen.end;
        if (!is_seen) scores[f][2 * h + i] = -INFINITY;
      }
    }
  }
}

// As add_values, but what a row does not see is passed over: zero times NaN would be NaN.
template <bool kIsF16, uint32_t kFrags, uint32_t kMaxV>
__device__ __forceinline__ void add_seen_values(const uint16_t* v, uint32_t stride,
                                                uint32_t n_columns, const FlashBlock& block,
                                                uint32_t first_row, uint32_t first_position,
                                                const FlashScores<kFrags>& weights,
                                                FlashRows<kMaxV>& rows) {
  Positions seen[2];
  BP_UNROLL
  for (uint32_t h = 0; h < 2; ++h) {
    seen[h] = block.seen_by(first_row + h * 8 + lane_index() / 4);
  }
  BP_NO_UNROLL
  for (uint32_t r = 0; r < 8 * kFrags; ++r) {
    const uint32_t position = first_position + r;
    const uint16_t* at = v + r * stride + lane_index() % 4 * 2;
    BP_UNROLL
    for (uint32_t h = 0; h < 2; ++h) {
      float own = 0;  // of r / 8, found by limits: an index would put the weights into memory
      BP_UNROLL
      for (uint32_t f = 0; f < kFrags; ++f) {
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

// A warp's rows over the block's positions, of whose tiles it has 8 * kFrags from `first` on. The
// first tile is on its way.
template <uint32_t kRowTiles, uint32_t kFrags, class Tile, uint32_t kMaxV>
__device__ __forceinline__ void attend_positions(const FlashBlock& block, Tile& tiles,
                                                 const uint16_t* q, uint32_t first_row,
                                                 uint32_t first,
                                                 FlashRows<kMaxV> (&rows)[kRowTiles]) {
  const AttendParams& p = block.p;
  const FlashShapes& shapes = block.shapes;
  const bool is_ahead = Tile::kIsWidened || p.n_stages > 1;
  for (uint32_t t = block.begin; t < block.end; ++t) {
    const uint32_t stage = (t - block.begin) % p.n_stages;
    const bool has_next = t + 1 < block.end;
    wait_for_copies<0>();
    __syncthreads();
    tiles.widen();
    if (is_ahead && has_next) tiles.copy_next((t + 1 - block.begin) % p.n_stages);
    if (first_row < block.n_rows) {
      FlashScores<kFrags> scores[kRowTiles];
      multiply_keys<Tile::kKeysAreF16, kRowTiles, kFrags>(
          q + first_row * shapes.k_stride, tiles.k(stage) + first * shapes.k_stride,
          shapes.k_stride, shapes.k_columns, scores);
      const uint32_t tile_begin = t * kFlashPositions, tile_end = tile_begin + kFlashPositions;
      const bool is_edge = tile_begin < block.common.begin || tile_end > block.common.end;
      BP_UNROLL
      for (uint32_t i = 0; i < kRowTiles; ++i) {
        if (p.softcap != 0) cap_scores<kFrags>(p.softcap, scores[i]);
        if (is_edge) hide_unseen<kFrags>(block, first_row + i * 16, tile_begin + first, scores[i]);
        weigh<kFrags>(scores[i], rows[i]);
      }
      const bool differs = max(tile_begin, block.all.begin) < block.common.begin ||
                           min(tile_end, block.all.end) > block.common.end;
      const uint16_t* v = tiles.v(stage) + first * shapes.v_stride;
      if (differs &&
          any_not_finite<Tile::kValuesAreF16>(v, shapes.v_stride, shapes.v_columns, 8 * kFrags)) {
        BP_UNROLL
        for (uint32_t i = 0; i < kRowTiles; ++i) {
          add_seen_values<Tile::kValuesAreF16, kFrags>(v, shapes.v_stride, shapes.v_columns, block,
                                                       first_row + i * 16, tile_begin + first,
                                                       scores[i], rows[i]);
        }
      } else {
        add_values<Tile::kValuesAreF16, kRowTiles, kFrags>(v, shapes.v_stride, shapes.v_columns,
                                                           scores, rows);
      }
    }
    if (!is_ahead && has_next) {
      __syncthreads();
      tiles.copy_next(0);
    }
  }
}

// Results of up to 16 rows that all warps share, each with its positions.
template <uint32_t kMaxV>
__device__ __forceinline__ void store_shared_rows(const FlashBlock& block, uint8_t* shared_bytes,
                                                  const FlashRows<kMaxV>& rows) {
  const AttendParams& p = block.p;
  __syncthreads();
  auto* const floats = reinterpret_cast<float*>(shared_bytes);
  constexpr uint32_t kSlots = kFlashWarps * 16;
  const FlashPartials partials{floats, floats + kSlots, floats + 2 * kSlots,
                               block.shapes.v_columns + 4};
  store_partials(rows, block.shapes.v_columns, partials);
  __syncthreads();
  for (uint32_t i = threadIdx.x; i < block.n_rows * p.v.head_dim; i += blockDim.x) {
    const uint32_t row = i / p.v.head_dim, d = i % p.v.head_dim;
    const float sink = block.sink_of(row);
    float top = sink;
    BP_UNROLL
    for (uint32_t s = row; s < kSlots; s += 16) top = fmaxf(top, partials.largest[s]);
    const float base = top == -INFINITY ? 0 : top;
    float denominator = exp2_fast(sink - base), sum = 0;
    BP_UNROLL
    for (uint32_t s = row; s < kSlots; s += 16) {
      const float weight = weight_of(partials.largest[s], partials.denominator[s], base);
      denominator += weight * partials.denominator[s];
      if (weight != 0) sum += weight * partials.sums[s * partials.stride + d];
    }
    if (block.tile.n_splits == 1) {
      block.output(row)[d] = sum / denominator;
      continue;
    }
    float* const out = block.part(row);
    if (d == 0) out[0] = top, out[1] = denominator;
    out[2 + d] = sum;
  }
}

// Heads of up to kMaxV columns; kIsExact: K and V both have kMaxV. A warp has kRowTiles times 16
// query rows, or, of up to 16 rows in all, every warp the same and a quarter of the positions.
template <bp_dtype kKeys, bp_dtype kValues, uint32_t kMaxV, bool kIsExact, uint32_t kRowTiles>
__global__ void __launch_bounds__(kFlashWarps* kWarp)
    flash_attend(const __grid_constant__ AttendParams p) {
  begin_in_order();
  using Tile = FlashTile<kKeys, kValues>;
  BP_DYNAMIC_SHARED(shared_bytes);
  const uint32_t item = blockIdx.x / p.k.n_heads, kv_head = blockIdx.x % p.k.n_heads;
  if (item >= *p.work.n_items) return;
  const FlashItem tile = p.work.items[item];
  const FlashShapes shapes =
      kIsExact ? flash_shapes(kMaxV, kMaxV) : flash_shapes(p.k.head_dim, p.v.head_dim);
  if (p.step->is_running[tile.sequence] == 0) {
    if (tile.n_splits == 1) write_zeros(p, tile, kv_head, heads_together(p));
    return;
  }
  const FlashBlock block = block_of(p, tile, shapes, kv_head);
  auto* const q = reinterpret_cast<uint16_t*>(shared_bytes);  // [64 * kRowTiles][k_stride]
  uint8_t* const stages = shared_bytes + kFlashRows * kRowTiles * shapes.k_stride * 2;
  Tile tiles(p, shapes, stages, tile.sequence, kv_head, block.all, block.begin);
  if (block.begin < block.end) tiles.copy_next(0);
  load_queries<Tile::kKeysAreF16>(p, tile, kv_head, block.n_heads, shapes, q);

  if (block.n_rows <= 16) {
    FlashRows<kMaxV> rows[1];
    attend_positions<1, 2>(block, tiles, q, 0, warp_index() * 16, rows);
    store_shared_rows(block, shared_bytes, rows[0]);
    return;
  }
  FlashRows<kMaxV> rows[kRowTiles];
  const uint32_t first_row = warp_index() * 16 * kRowTiles;
  attend_positions<kRowTiles, 8>(block, tiles, q, first_row, 0, rows);
  BP_UNROLL
  for (uint32_t i = 0; i < kRowTiles; ++i) {
    store_rows(block, first_row + i * 16, rows[i]);
  }
}

template <bp_dtype kKeys, bp_dtype kValues>
Kernel<AttendParams> flash_kernel_of(const AttendParams& p, const char* name) {
  if (p.k.dtype != kKeys || p.v.dtype != kValues) return {};
  if constexpr (kKeys == kValues && is_half(kKeys)) {
    const bool is_wide = p.tile_rows == kWideFlashRows;
    switch (exact_flash_dim(p.k.head_dim, p.v.head_dim)) {
      case 64:
        if (is_wide) return {name, flash_attend<kKeys, kValues, 64, true, 2>};
        return {name, flash_attend<kKeys, kValues, 64, true, 1>};
      case 128:
        if (is_wide) return {name, flash_attend<kKeys, kValues, 128, true, 2>};
        return {name, flash_attend<kKeys, kValues, 128, true, 1>};
      default:
        break;
    }
  }
  if (p.v.head_dim <= 128) return {name, flash_attend<kKeys, kValues, 128, false, 1>};
  return {name, flash_attend<kKeys, kValues, kMaxFlashDim, false, 1>};
}

}  // namespace bp::cuda
