// Attention to keys and values in pairs of bf16, in tile registers: a tile of keys is 16 positions
// of 32 dimensions, one of values 16 columns of 32 positions. A row's sums go on in ascending
// order by 32, whatever rows stand beside it.

#include "backends/cpu/kernels/simd_avx512.hpp"
// clang-format keeps what defines the lanes first.
#include "backends/cpu/kernels/amx/tile_config.hpp"
#include "backends/cpu/kernels/bf16_softmax.inl"
#include "backends/cpu/kernels/few_rows.inl"
#include "backends/cpu/kernels/pair_layout.inl"

namespace bp::cpu::amx {
namespace {

using namespace avx512;

constexpr uint32_t kRows = 16;      // of a tile
constexpr uint32_t kSteps = 32;     // dimensions or positions of a product
constexpr size_t kTileStride = 64;  // bytes, of keys and values
constexpr size_t kTileBytes = kRows * kTileStride;
constexpr size_t kScoreStride = kTilePositions * sizeof(float);
static_assert(kMaxQueryRows == 2 * kRows && kKeyPairDims == kSteps);

// With up to 16 rows tiles 0 to 4 have as many rows, 5 to 7 hold keys or values. With more, tiles
// 0, 2 and 4 belong to the first 16 rows, 1, 3 and 5 to the others, and 6 and 7 hold keys or
// values.
void configure_tiles(uint32_t n_rows) {
  TileConfig config;
  const bool two = n_rows > kRows;
  for (int tile = 0; tile < 8; ++tile) {
    config.row_bytes[tile] = 64;
    const uint32_t own = !two ? n_rows : tile % 2 == 0 ? kRows : n_rows - kRows;
    config.n_rows[tile] = static_cast<uint8_t>(tile < (two ? 6 : 5) ? own : kRows);
  }
  load_config(config);  // also what was written before, which gcc's tile loads do not say they read
}

// Asks for what takes the place of a tile register's keys or values in what is read next.
__attribute__((always_inline)) inline void ask_for_next(const KvTile& tile, const void* from) {
  ask_ahead<Tuning::kIntel, kTileBytes>(tile, from);
}

// Queries and scores of the rows of one tile.
struct Queries {
  const float* words;  // of two dimensions each
  size_t stride;       // bytes
  uint32_t n_steps;
};

void score_four_groups(const KvTile& tile, uint32_t group, const Queries& queries, float* scores) {
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (uint32_t step = 0; step < queries.n_steps; ++step) {
    _tile_loadd(4, queries.words + 16 * step, queries.stride);
    _tile_loadd(5, key_pairs(tile, group, 16 * step), kTileStride);
    ask_for_next(tile, key_pairs(tile, group, 16 * step));
    _tile_loadd(6, key_pairs(tile, group + 1, 16 * step), kTileStride);
    ask_for_next(tile, key_pairs(tile, group + 1, 16 * step));
    _tile_dpbf16ps(0, 4, 5);
    _tile_loadd(7, key_pairs(tile, group + 2, 16 * step), kTileStride);
    ask_for_next(tile, key_pairs(tile, group + 2, 16 * step));
    _tile_dpbf16ps(1, 4, 6);
    _tile_loadd(5, key_pairs(tile, group + 3, 16 * step), kTileStride);
    ask_for_next(tile, key_pairs(tile, group + 3, 16 * step));
    _tile_dpbf16ps(2, 4, 7);
    _tile_dpbf16ps(3, 4, 5);
  }
  _tile_stored(0, scores + 16 * group, kScoreStride);
  _tile_stored(1, scores + 16 * group + 16, kScoreStride);
  _tile_stored(2, scores + 16 * group + 32, kScoreStride);
  _tile_stored(3, scores + 16 * group + 48, kScoreStride);
}

void score_group(const KvTile& tile, uint32_t group, const Queries& queries, float* scores) {
  _tile_zero(0);
  for (uint32_t step = 0; step < queries.n_steps; ++step) {
    _tile_loadd(4, queries.words + 16 * step, queries.stride);
    _tile_loadd(5, key_pairs(tile, group, 16 * step), kTileStride);
    ask_for_next(tile, key_pairs(tile, group, 16 * step));
    _tile_dpbf16ps(0, 4, 5);
  }
  _tile_stored(0, scores + 16 * group, kScoreStride);
}

// Of two tiles of rows; others: those of the second.
void score_two_groups(const KvTile& tile, uint32_t group, const Queries& queries,
                      const Queries& others, float* scores, float* other_scores) {
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (uint32_t step = 0; step < queries.n_steps; ++step) {
    _tile_loadd(4, queries.words + 16 * step, queries.stride);
    _tile_loadd(6, key_pairs(tile, group, 16 * step), kTileStride);
    ask_for_next(tile, key_pairs(tile, group, 16 * step));
    _tile_loadd(5, others.words + 16 * step, queries.stride);
    _tile_loadd(7, key_pairs(tile, group + 1, 16 * step), kTileStride);
    ask_for_next(tile, key_pairs(tile, group + 1, 16 * step));
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 5, 6);
    _tile_dpbf16ps(2, 4, 7);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_stored(0, scores + 16 * group, kScoreStride);
  _tile_stored(1, other_scores + 16 * group, kScoreStride);
  _tile_stored(2, scores + 16 * group + 16, kScoreStride);
  _tile_stored(3, other_scores + 16 * group + 16, kScoreStride);
}

void score_last_group(const KvTile& tile, uint32_t group, const Queries& queries,
                      const Queries& others, float* scores, float* other_scores) {
  _tile_zero(0);
  _tile_zero(1);
  for (uint32_t step = 0; step < queries.n_steps; ++step) {
    _tile_loadd(6, key_pairs(tile, group, 16 * step), kTileStride);
    ask_for_next(tile, key_pairs(tile, group, 16 * step));
    _tile_loadd(4, queries.words + 16 * step, queries.stride);
    _tile_loadd(5, others.words + 16 * step, queries.stride);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 5, 6);
  }
  _tile_stored(0, scores + 16 * group, kScoreStride);
  _tile_stored(1, other_scores + 16 * group, kScoreStride);
}

void score_tile(const KvTile& tile, const float* words, size_t query_stride, uint32_t n_rows,
                uint32_t head_dim, float* scores) {
  const Queries queries{words, query_stride * sizeof(float), (head_dim + kSteps - 1) / kSteps};
  configure_tiles(n_rows);
  uint32_t group = tile.first;
  if (n_rows <= kRows) {
    for (; group + 4 <= tile.end; group += 4) score_four_groups(tile, group, queries, scores);
    for (; group < tile.end; ++group) score_group(tile, group, queries, scores);
  } else {
    const Queries others{words + kRows * query_stride, queries.stride, queries.n_steps};
    float* other_scores = scores + kRows * kTilePositions;
    for (; group + 2 <= tile.end; group += 2) {
      score_two_groups(tile, group, queries, others, scores, other_scores);
    }
    for (; group < tile.end; ++group) {
      score_last_group(tile, group, queries, others, scores, other_scores);
    }
  }
  _tile_release();
}

// Probabilities and sums of the rows of one tile, and which halves of the tile of the cache count.
struct Weighted {
  const float* probabilities;  // of 32 positions every 16 floats
  float* out;
  size_t stride;  // bytes
  uint32_t first_half, end_half;
};

void accumulate_four(const KvTile& tile, const Weighted& rows, uint32_t column) {
  float* out = rows.out + column;
  _tile_loadd(0, out, rows.stride);
  _tile_loadd(1, out + 16, rows.stride);
  _tile_loadd(2, out + 32, rows.stride);
  _tile_loadd(3, out + 48, rows.stride);
  for (uint32_t half = rows.first_half; half < rows.end_half; ++half) {
    const uint32_t pair = half * kHalfPairs;
    _tile_loadd(4, rows.probabilities + 16 * half, kScoreStride);
    _tile_loadd(5, value_pairs(tile, pair, column), kTileStride);
    ask_for_next(tile, value_pairs(tile, pair, column));
    _tile_loadd(6, value_pairs(tile, pair, column + 16), kTileStride);
    ask_for_next(tile, value_pairs(tile, pair, column + 16));
    _tile_dpbf16ps(0, 4, 5);
    _tile_loadd(7, value_pairs(tile, pair, column + 32), kTileStride);
    ask_for_next(tile, value_pairs(tile, pair, column + 32));
    _tile_dpbf16ps(1, 4, 6);
    _tile_loadd(5, value_pairs(tile, pair, column + 48), kTileStride);
    ask_for_next(tile, value_pairs(tile, pair, column + 48));
    _tile_dpbf16ps(2, 4, 7);
    _tile_dpbf16ps(3, 4, 5);
  }
  _tile_stored(0, out, rows.stride);
  _tile_stored(1, out + 16, rows.stride);
  _tile_stored(2, out + 32, rows.stride);
  _tile_stored(3, out + 48, rows.stride);
}

void accumulate_one(const KvTile& tile, const Weighted& rows, uint32_t column) {
  _tile_loadd(0, rows.out + column, rows.stride);
  for (uint32_t half = rows.first_half; half < rows.end_half; ++half) {
    _tile_loadd(4, rows.probabilities + 16 * half, kScoreStride);
    _tile_loadd(5, value_pairs(tile, half * kHalfPairs, column), kTileStride);
    ask_for_next(tile, value_pairs(tile, half * kHalfPairs, column));
    _tile_dpbf16ps(0, 4, 5);
  }
  _tile_stored(0, rows.out + column, rows.stride);
}

// Of two tiles of rows.
void accumulate_two(const KvTile& tile, const Weighted& rows, const Weighted& others,
                    uint32_t column) {
  float *out = rows.out + column, *other_out = others.out + column;
  _tile_loadd(0, out, rows.stride);
  _tile_loadd(1, other_out, rows.stride);
  _tile_loadd(2, out + 16, rows.stride);
  _tile_loadd(3, other_out + 16, rows.stride);
  for (uint32_t half = rows.first_half; half < rows.end_half; ++half) {
    _tile_loadd(4, rows.probabilities + 16 * half, kScoreStride);
    _tile_loadd(6, value_pairs(tile, half * kHalfPairs, column), kTileStride);
    ask_for_next(tile, value_pairs(tile, half * kHalfPairs, column));
    _tile_loadd(5, others.probabilities + 16 * half, kScoreStride);
    _tile_loadd(7, value_pairs(tile, half * kHalfPairs, column + 16), kTileStride);
    ask_for_next(tile, value_pairs(tile, half * kHalfPairs, column + 16));
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 5, 6);
    _tile_dpbf16ps(2, 4, 7);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_stored(0, out, rows.stride);
  _tile_stored(1, other_out, rows.stride);
  _tile_stored(2, out + 16, rows.stride);
  _tile_stored(3, other_out + 16, rows.stride);
}

void accumulate_last(const KvTile& tile, const Weighted& rows, const Weighted& others,
                     uint32_t column) {
  _tile_loadd(0, rows.out + column, rows.stride);
  _tile_loadd(1, others.out + column, rows.stride);
  for (uint32_t half = rows.first_half; half < rows.end_half; ++half) {
    _tile_loadd(6, value_pairs(tile, half * kHalfPairs, column), kTileStride);
    ask_for_next(tile, value_pairs(tile, half * kHalfPairs, column));
    _tile_loadd(4, rows.probabilities + 16 * half, kScoreStride);
    _tile_loadd(5, others.probabilities + 16 * half, kScoreStride);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 5, 6);
  }
  _tile_stored(0, rows.out + column, rows.stride);
  _tile_stored(1, others.out + column, rows.stride);
}

void accumulate_tile(const KvTile& tile, const float* probabilities, uint32_t n_rows,
                     uint32_t first, uint32_t end, float* out, size_t out_stride) {
  const Weighted rows{probabilities, out, out_stride * sizeof(float), first / kSteps,
                      (end + kSteps - 1) / kSteps};
  configure_tiles(n_rows);
  uint32_t column = 0;
  if (n_rows <= kRows) {
    for (; column + 64 <= tile.value_stride; column += 64) accumulate_four(tile, rows, column);
    for (; column < tile.value_stride; column += 16) accumulate_one(tile, rows, column);
  } else {
    Weighted others = rows;
    others.probabilities += kRows * kTilePositions;
    others.out += kRows * out_stride;
    for (; column + 32 <= tile.value_stride; column += 32) {
      accumulate_two(tile, rows, others, column);
    }
    for (; column < tile.value_stride; column += 16) accumulate_last(tile, rows, others, column);
  }
  _tile_release();
}

}  // namespace

void set_attention_kernels(Kernels& kernels) {
  constexpr int i = static_cast<int>(KvType::kBF16);
  kernels.pack_query[i] = pack_query_in_pairs;
  kernels.score_tile[i] = score_tile;
  kernels.softmax_tile[i] = softmax_tile<StorePairs>;
  kernels.accumulate_tile[i] = accumulate_tile;
  kernels.values_finite[i] = values_finite_pairs<kSteps>;
  kernels.wanting_rows[i] = 0;
  kernels.pack_tile = nullptr;
}

}  // namespace bp::cpu::amx
