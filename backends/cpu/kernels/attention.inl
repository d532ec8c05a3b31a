// Attention of a few query rows to one tile of 64 positions of the cache.

#include "backends/cpu/kernels/attention_q8.inl"
#include "backends/cpu/kernels/float_types.inl"
#include "backends/cpu/kernels/kernel_table.hpp"
#include "backends/cpu/kernels/math.inl"
#include "backends/cpu/kernels/unroll.hpp"

namespace bp::cpu::BP_CPU_ISA {
namespace {

// M query rows times G groups of 16 positions; each score sums in ascending order of dimensions.
template <class Type, uint32_t M, uint32_t G>
inline void score_groups(const KvTile& tile, uint32_t group, const float* queries,
                         size_t query_stride, uint32_t head_dim, float* scores) {
  F32x16 sums[M][G];
  BP_UNROLL for (uint32_t m = 0; m < M; ++m) {
    BP_UNROLL for (uint32_t g = 0; g < G; ++g) sums[m][g] = zero();
  }
  const typename Type::Element* keys[G];
  BP_UNROLL for (uint32_t g = 0; g < G; ++g) keys[g] = Type::at(tile.keys[group + g]);
  for (uint32_t d = 0; d < head_dim; ++d) {
    F32x16 k[G];
    BP_UNROLL for (uint32_t g = 0; g < G; ++g) {
      k[g] = Type::load(keys[g]);
      keys[g] += tile.key_stride;
    }
    BP_UNROLL for (uint32_t m = 0; m < M; ++m) {
      const F32x16 q = broadcast(queries[m * query_stride + d]);
      BP_UNROLL for (uint32_t g = 0; g < G; ++g) sums[m][g] = fma(q, k[g], sums[m][g]);
    }
  }
  BP_UNROLL for (uint32_t m = 0; m < M; ++m) {
    BP_UNROLL for (uint32_t g = 0; g < G; ++g) {
      store(scores + m * kTilePositions + (group + g) * 16, sums[m][g]);
    }
  }
}

template <class Type, uint32_t M>
inline void score_rows(const KvTile& tile, const float* queries, size_t query_stride,
                       uint32_t head_dim, float* scores) {
  uint32_t group = tile.first;
  if constexpr (kMaxPanel >= 8) {  // registers for four groups
    for (; group + kTileGroups <= tile.end; group += kTileGroups) {
      score_groups<Type, M, kTileGroups>(tile, group, queries, query_stride, head_dim, scores);
    }
  }
  for (; group < tile.end; ++group) {
    score_groups<Type, M, 1>(tile, group, queries, query_stride, head_dim, scores);
  }
}

template <class Type>
void score_tile(const KvTile& tile, const float* queries, size_t query_stride, uint32_t n_rows,
                uint32_t head_dim, float* scores) {
  switch (n_rows) {
    case 1:
      return score_rows<Type, 1>(tile, queries, query_stride, head_dim, scores);
    case 2:
      return score_rows<Type, 2>(tile, queries, query_stride, head_dim, scores);
    case 3:
      return score_rows<Type, 3>(tile, queries, query_stride, head_dim, scores);
    default:
      return score_rows<Type, 4>(tile, queries, query_stride, head_dim, scores);
  }
}

// C vectors of 16 columns, positions ascending.
template <class Type, uint32_t M, uint32_t C>
inline void accumulate_columns(const KvTile& tile, uint32_t column, const float* probabilities,
                               uint32_t first, uint32_t end, float* out, size_t out_stride) {
  F32x16 sums[M][C];
  BP_UNROLL for (uint32_t m = 0; m < M; ++m) {
    BP_UNROLL for (uint32_t c = 0; c < C; ++c) {
      sums[m][c] = load(out + m * out_stride + column + 16 * c);
    }
  }
  for (uint32_t i = first; i < end; ++i) {
    const auto* v = Type::at(tile.values[i / 16]) + (i % 16) * tile.value_stride + column;
    F32x16 values[C];
    BP_UNROLL for (uint32_t c = 0; c < C; ++c) values[c] = Type::load(v + 16 * c);
    BP_UNROLL for (uint32_t m = 0; m < M; ++m) {
      const F32x16 p = broadcast(probabilities[m * kTilePositions + i]);
      BP_UNROLL for (uint32_t c = 0; c < C; ++c) sums[m][c] = fma(p, values[c], sums[m][c]);
    }
  }
  BP_UNROLL for (uint32_t m = 0; m < M; ++m) {
    BP_UNROLL for (uint32_t c = 0; c < C; ++c) {
      store(out + m * out_stride + column + 16 * c, sums[m][c]);
    }
  }
}

template <class Type, uint32_t M>
inline void accumulate_rows(const KvTile& tile, const float* probabilities, uint32_t first,
                            uint32_t end, float* out, size_t out_stride) {
  uint32_t column = 0;
  if constexpr (kMaxPanel >= 8) {
    for (; column + 64 <= tile.value_stride; column += 64) {
      accumulate_columns<Type, M, 4>(tile, column, probabilities, first, end, out, out_stride);
    }
  }
  for (; column < tile.value_stride; column += 16) {
    accumulate_columns<Type, M, 1>(tile, column, probabilities, first, end, out, out_stride);
  }
}

template <class Type>
void accumulate_tile(const KvTile& tile, const float* probabilities, uint32_t n_rows,
                     uint32_t first, uint32_t end, float* out, size_t out_stride) {
  switch (n_rows) {
    case 1:
      return accumulate_rows<Type, 1>(tile, probabilities, first, end, out, out_stride);
    case 2:
      return accumulate_rows<Type, 2>(tile, probabilities, first, end, out, out_stride);
    case 3:
      return accumulate_rows<Type, 3>(tile, probabilities, first, end, out, out_stride);
    default:
      return accumulate_rows<Type, 4>(tile, probabilities, first, end, out, out_stride);
  }
}

float softmax_tile(float* scores, uint32_t first, uint32_t end, float scale, float softcap,
                   float* maximum, float* sum) {
  const F32x16 below = broadcast(-__builtin_inff());
  F32x16 largest = broadcast(*maximum);
  F32x16 x[kTileGroups];
  BP_UNROLL for (uint32_t g = 0; g < kTileGroups; ++g) {
    x[g] = mul(load(scores + 16 * g), broadcast(scale));
    if (softcap != 0) x[g] = mul(broadcast(softcap), tanh(div(x[g], broadcast(softcap))));
    const int base = static_cast<int>(16 * g);
    x[g] = where_between(static_cast<int>(first) - base, static_cast<int>(end) - base, x[g], below);
    largest = max(largest, x[g]);
  }
  const float now = reduce_max(largest);
  F32x16 total = zero();
  BP_UNROLL for (uint32_t g = 0; g < kTileGroups; ++g) {
    x[g] = exp(sub(x[g], broadcast(now)));
    total = add(total, x[g]);
    store(scores + 16 * g, x[g]);
  }
  float factors[16];
  store(factors, exp(broadcast(*maximum - now)));
  *maximum = now;
  *sum = *sum * factors[0] + reduce_add(total);
  return factors[0];
}

}  // namespace

void set_attention_kernels(Kernels& kernels) {
  kernels.score_tile[static_cast<int>(KvType::kF32)] = score_tile<F32>;
  kernels.score_tile[static_cast<int>(KvType::kF16)] = score_tile<F16>;
  kernels.score_tile[static_cast<int>(KvType::kBF16)] = score_tile<BF16>;
  kernels.score_tile[static_cast<int>(KvType::kQ8_0)] = score_tile_q8;
  kernels.accumulate_tile[static_cast<int>(KvType::kF32)] = accumulate_tile<F32>;
  kernels.accumulate_tile[static_cast<int>(KvType::kF16)] = accumulate_tile<F16>;
  kernels.accumulate_tile[static_cast<int>(KvType::kBF16)] = accumulate_tile<BF16>;
  kernels.accumulate_tile[static_cast<int>(KvType::kQ8_0)] = accumulate_tile_q8;
  kernels.softmax_tile = softmax_tile;
  kernels.quantize_kv = quantize_kv;
  kernels.quantize_query = quantize_query;
}

}  // namespace bp::cpu::BP_CPU_ISA
