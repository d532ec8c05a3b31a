// Attention of a few query rows to one tile of 64 positions of the cache.

#include "backends/cpu/kernels/attention_pairs.inl"
#include "backends/cpu/kernels/attention_q8.inl"
#include "backends/cpu/kernels/few_rows.inl"
#include "backends/cpu/kernels/float_types.inl"
#include "backends/cpu/kernels/kernel_table.hpp"
#include "backends/cpu/kernels/softmax.inl"
#include "backends/cpu/kernels/unroll.hpp"

namespace bp::cpu::BP_CPU_ISA {
namespace {

// M query rows times G groups of 16 positions; each score sums in ascending order of dimensions.
template <class Type, class Rows, uint32_t G>
inline void score_groups(const KvTile& tile, uint32_t group, const float* queries,
                         size_t query_stride, uint32_t head_dim, float* scores) {
  constexpr uint32_t M = Rows::kRows;
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
      Rows::template ask_ahead<16 * Type::kBytes>(tile, keys[g]);
      keys[g] += tile.block_size;
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

template <class Type, class Rows>
inline void score_rows(const KvTile& tile, const float* queries, size_t query_stride,
                       uint32_t head_dim, float* scores) {
  constexpr uint32_t kGroups = Rows::kVectors;
  uint32_t group = tile.first;
  for (; group + kGroups <= tile.end; group += kGroups) {
    score_groups<Type, Rows, kGroups>(tile, group, queries, query_stride, head_dim, scores);
  }
  for (; group < tile.end; ++group) {
    score_groups<Type, Rows, 1>(tile, group, queries, query_stride, head_dim, scores);
  }
}

template <Tuning T, class Type>
void score_tile(const KvTile& tile, const float* queries, size_t query_stride, uint32_t n_rows,
                uint32_t head_dim, float* scores) {
  for_float_rows<T>(n_rows, [&](uint32_t row, auto rows) {
    score_rows<Type, decltype(rows)>(tile, queries + row * query_stride, query_stride, head_dim,
                                     scores + row * kTilePositions);
  });
}

// C vectors of 16 columns, positions ascending.
template <class Type, class Rows, uint32_t C>
inline void accumulate_columns(const KvTile& tile, uint32_t column, const float* probabilities,
                               uint32_t first, uint32_t end, float* out, size_t out_stride) {
  constexpr uint32_t M = Rows::kRows;
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
    Rows::template ask_ahead<16 * C * Type::kBytes>(tile, v);
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

template <class Type, class Rows>
inline void accumulate_rows(const KvTile& tile, const float* probabilities, uint32_t first,
                            uint32_t end, float* out, size_t out_stride) {
  constexpr uint32_t kVectors = Rows::kColumnVectors;
  uint32_t column = 0;
  for (; column + 16 * kVectors <= tile.value_stride; column += 16 * kVectors) {
    accumulate_columns<Type, Rows, kVectors>(tile, column, probabilities, first, end, out,
                                             out_stride);
  }
  for (; column < tile.value_stride; column += 16) {
    accumulate_columns<Type, Rows, 1>(tile, column, probabilities, first, end, out, out_stride);
  }
}

template <Tuning T, class Type>
void accumulate_tile(const KvTile& tile, const float* probabilities, uint32_t n_rows,
                     uint32_t first, uint32_t end, float* out, size_t out_stride) {
  for_float_rows<T>(n_rows, [&](uint32_t row, auto rows) {
    accumulate_rows<Type, decltype(rows)>(tile, probabilities + row * kTilePositions, first, end,
                                          out + row * out_stride, out_stride);
  });
}

template <class Type>
bool values_finite(const KvTile& tile, uint32_t first, uint32_t end) {
  I32x16 largest = broadcast_int(0);
  for (uint32_t i = first; i < end; ++i) {
    const auto* v = Type::at(tile.values[i / 16]) + (i % 16) * tile.value_stride;
    for (uint32_t c = 0; c < tile.value_stride; c += 16) {
      largest = max(largest, magnitude_bits(Type::load(v + c)));
    }
  }
  return reduce_max(largest) < kInfinityBits;
}

template <Tuning T, class Type>
void set_float_attention(KvType type, Kernels& kernels) {
  const int i = static_cast<int>(type);
  kernels.score_tile[i] = score_tile<T, Type>;
  kernels.accumulate_tile[i] = accumulate_tile<T, Type>;
  kernels.values_finite[i] = values_finite<Type>;
}

template <Tuning T, class Keys, class Values, class Quantize>
void set_integer_attention(KvType type, Quantize quantize, Kernels& kernels) {
  const int i = static_cast<int>(type);
  kernels.pack_query[i] = quantize_query;
  kernels.score_tile[i] = score_tile_q8<T, Keys>;
  kernels.accumulate_tile[i] = accumulate_tile_q8<T, Values>;
  kernels.quantize_kv[i] = quantize;
}

template <Tuning T>
void set_attention(Kernels& kernels) {
  set_float_attention<T, F32>(KvType::kF32, kernels);
  set_float_attention<T, F16>(KvType::kF16, kernels);
  constexpr int bf16 = static_cast<int>(KvType::kBF16);
  kernels.score_tile[bf16] = score_tile_pairs<T>;
  kernels.accumulate_tile[bf16] = accumulate_tile_pairs<T>;
  kernels.values_finite[bf16] = values_finite_pairs<2>;
  kernels.store_value_pairs = store_value_pairs;
  set_integer_attention<T, Keys8, Values8>(KvType::kQ8_0, quantize_kv_8, kernels);
  set_integer_attention<T, Keys4, Values4>(KvType::kQ4_0, quantize_kv_4, kernels);
  for (SoftmaxTile& softmax : kernels.softmax_tile) softmax = softmax_tile<StoreFloats>;
}

}  // namespace

void set_attention_kernels(Kernels& kernels, Tuning tuning) {
  if constexpr (kIsTuned) {  // Intel's way is Zen 4's
    if (tuning != Tuning::kZen5) return set_attention<Tuning::kZen4>(kernels);
  }
  set_attention<Tuning::kZen5>(kernels);
}

}  // namespace bp::cpu::BP_CPU_ISA
