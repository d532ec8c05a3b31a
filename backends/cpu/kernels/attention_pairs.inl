// Attention to one tile of 64 positions whose keys or values are bf16 in pairs, in plain floats.
#pragma once

#include "backends/cpu/kernels/few_rows.inl"
#include "backends/cpu/kernels/kernel_table.hpp"
#include "backends/cpu/kernels/lanes.inl"
#include "backends/cpu/kernels/pair_layout.inl"
#include "backends/cpu/kernels/unroll.hpp"

namespace bp::cpu::BP_CPU_ISA {
namespace {

// M query rows times G groups of 16 positions; each score sums in ascending order of dimensions.
template <class Rows, uint32_t G>
inline void score_groups_pairs(const KvTile& tile, uint32_t group, const float* queries,
                               size_t query_stride, uint32_t head_dim, float* scores) {
  constexpr uint32_t M = Rows::kRows;
  F32x16 sums[M][G];
  BP_UNROLL for (uint32_t m = 0; m < M; ++m) {
    BP_UNROLL for (uint32_t g = 0; g < G; ++g) sums[m][g] = zero();
  }
  for (uint32_t d = 0; d < head_dim; d += 2) {
    Bf16Pairs k[G];
    BP_UNROLL for (uint32_t g = 0; g < G; ++g) {
      k[g] = load_bf16_pairs(key_pairs(tile, group + g, d / 2));
      Rows::template ask_ahead<64>(tile, key_pairs(tile, group + g, d / 2));
    }
    BP_UNROLL for (uint32_t m = 0; m < M; ++m) {
      const F32x16 even = broadcast(queries[m * query_stride + d]);
      const F32x16 odd = broadcast(queries[m * query_stride + d + 1]);
      BP_UNROLL for (uint32_t g = 0; g < G; ++g) {
        sums[m][g] = fma(odd, k[g].odd, fma(even, k[g].even, sums[m][g]));
      }
    }
  }
  BP_UNROLL for (uint32_t m = 0; m < M; ++m) {
    BP_UNROLL for (uint32_t g = 0; g < G; ++g) {
      store(scores + m * kTilePositions + (group + g) * 16, sums[m][g]);
    }
  }
}

template <Tuning T>
void score_tile_pairs(const KvTile& tile, const float* queries, size_t query_stride,
                      uint32_t n_rows, uint32_t head_dim, float* scores) {
  for_few_rows<T>(n_rows, [&](uint32_t row, auto rows) {
    using Rows = decltype(rows);
    constexpr uint32_t kGroups = Rows::kVectors;
    const float* own = queries + row * query_stride;
    float* to = scores + row * kTilePositions;
    uint32_t group = tile.first;
    for (; group + kGroups <= tile.end; group += kGroups) {
      score_groups_pairs<Rows, kGroups>(tile, group, own, query_stride, head_dim, to);
    }
    for (; group < tile.end; ++group) {
      score_groups_pairs<Rows, 1>(tile, group, own, query_stride, head_dim, to);
    }
  });
}

// C vectors of 16 columns, positions ascending.
template <class Rows, uint32_t C>
inline void accumulate_columns_pairs(const KvTile& tile, uint32_t column,
                                     const float* probabilities, uint32_t first_pair,
                                     uint32_t end_pair, float* out, size_t out_stride) {
  constexpr uint32_t M = Rows::kRows;
  F32x16 sums[M][C];
  BP_UNROLL for (uint32_t m = 0; m < M; ++m) {
    BP_UNROLL for (uint32_t c = 0; c < C; ++c) {
      sums[m][c] = load(out + m * out_stride + column + 16 * c);
    }
  }
  for (uint32_t i = first_pair; i < end_pair; ++i) {
    Bf16Pairs v[C];
    BP_UNROLL for (uint32_t c = 0; c < C; ++c) {
      v[c] = load_bf16_pairs(value_pairs(tile, i, column + 16 * c));
      Rows::template ask_ahead<64>(tile, value_pairs(tile, i, column + 16 * c));
    }
    BP_UNROLL for (uint32_t m = 0; m < M; ++m) {
      const F32x16 even = broadcast(probabilities[m * kTilePositions + 2 * i]);
      const F32x16 odd = broadcast(probabilities[m * kTilePositions + 2 * i + 1]);
      BP_UNROLL for (uint32_t c = 0; c < C; ++c) {
        sums[m][c] = fma(odd, v[c].odd, fma(even, v[c].even, sums[m][c]));
      }
    }
  }
  BP_UNROLL for (uint32_t m = 0; m < M; ++m) {
    BP_UNROLL for (uint32_t c = 0; c < C; ++c) {
      store(out + m * out_stride + column + 16 * c, sums[m][c]);
    }
  }
}

template <Tuning T>
void accumulate_tile_pairs(const KvTile& tile, const float* probabilities, uint32_t n_rows,
                           uint32_t first, uint32_t end, float* out, size_t out_stride) {
  const uint32_t first_pair = first / 2, end_pair = (end + 1) / 2;
  for_few_rows<T>(n_rows, [&](uint32_t row, auto rows) {
    using Rows = decltype(rows);
    const float* own = probabilities + row * kTilePositions;
    float* to = out + row * out_stride;
    constexpr uint32_t kVectors = Rows::kVectors;
    uint32_t column = 0;
    for (; column + 16 * kVectors <= tile.value_stride; column += 16 * kVectors) {
      accumulate_columns_pairs<Rows, kVectors>(tile, column, own, first_pair, end_pair, to,
                                               out_stride);
    }
    for (; column < tile.value_stride; column += 16) {
      accumulate_columns_pairs<Rows, 1>(tile, column, own, first_pair, end_pair, to, out_stride);
    }
  });
}

// Every second element from p on; others are not touched. Where one instruction does it, the
// instruction set has a function of its own, which overloads prefer to this template.
template <class Lanes>
void store_bf16_apart(uint16_t* p, const Lanes& x) {
  uint16_t narrow[16];
  store_bf16(narrow, x);
  for (int i = 0; i < 16; ++i) p[2 * i] = narrow[i];
}

void store_value_pairs(const float* value, uint32_t n, uint16_t* pairs) {
  for_lanes(n, [&](size_t c, auto get, auto) {
    store_bf16_apart(pairs + c / 16 * kHalfElements, get(value + c));
  });
}

}  // namespace
}  // namespace bp::cpu::BP_CPU_ISA
