// Attention to one tile of 64 positions whose keys or values are 8-bit integers with a scale per 32
// dimensions. Sums within a scale are exact; scales fold in ascending dimensions.
#pragma once

#include "backends/cpu/kernels/block_scale.inl"
#include "backends/cpu/kernels/few_rows.inl"
#include "backends/cpu/kernels/kernel_table.hpp"
#include "backends/cpu/kernels/unroll.hpp"

namespace bp::cpu::BP_CPU_ISA {
namespace {

constexpr uint32_t kScaleWords = kKvScaleDims / 4;

// Up to 32 values; lanes from n on are zero.
struct KvDims {
  F32x16 low, high;
};

inline KvDims load_dims(const float* x, uint32_t n) {
  if (n == kKvScaleDims) return {load(x), load(x + 16)};
  if (n >= 16) return {load(x), load_first(x + 16, n - 16)};
  return {load_first(x, n), zero()};
}

// The Hadamard transform of 32 dimensions, which keeps products of two vectors and spreads what
// stands out in few dimensions, as trained models' keys do, over all of them. Fewer stay as they
// are.
inline void spread(KvDims& x, uint32_t n) {
  if (n < kKvScaleDims) return;
  constexpr float kUnit = 0.17677669529663688f;  // 1 / sqrt(32)
  const F32x16 low = mul(add(x.low, x.high), broadcast(kUnit));
  const F32x16 high = mul(sub(x.low, x.high), broadcast(kUnit));
  alignas(64) float lanes[2][kKvScaleDims];
  store(lanes[0], low);
  store(lanes[0] + 16, high);
  for (uint32_t stage = 0; stage < 4; ++stage) {  // each moves what it adds to the front
    const float* from = lanes[stage % 2];
    float* to = lanes[1 - stage % 2];
    for (uint32_t i = 0; i < 16; ++i) {
      to[i] = from[2 * i] + from[2 * i + 1];
      to[i + 16] = from[2 * i] - from[2 * i + 1];
    }
  }
  x = {load(lanes[0]), load(lanes[0] + 16)};
}

// Nearest integers of x * factor, as bytes; what they leave of x replaces it.
inline void take_bytes(KvDims& x, float factor, float scale, int8_t* q, uint32_t& sum) {
  const I32x16 low = to_int(mul(x.low, broadcast(factor)));
  const I32x16 high = to_int(mul(x.high, broadcast(factor)));
  store_i8(q, low);
  store_i8(q + 16, high);
  // Unsigned: what stands for a NaN may overflow.
  sum = static_cast<uint32_t>(reduce_add(low)) + static_cast<uint32_t>(reduce_add(high));
  x.low = fma(to_float(low), broadcast(-scale), x.low);
  x.high = fma(to_float(high), broadcast(-scale), x.high);
}

void quantize_kv(const float* x, uint32_t n, bool is_key, int8_t q[kKvScaleDims], uint16_t* scale) {
  KvDims dims = load_dims(x, n);
  if (is_key) spread(dims, n);
  const BlockScale block = block_scale(dims.low, dims.high);
  uint32_t sum;
  take_bytes(dims, block.inverse, block.scale, q, sum);
  uint16_t lanes[16];
  store_f16(lanes, broadcast(block.scale));
  *scale = lanes[0];
}

void quantize_query(float* x, uint32_t head_dim) {
  float* record = x;
  for (uint32_t d = 0; d < head_dim; d += kKvScaleDims) {
    const uint32_t n = head_dim - d < kKvScaleDims ? head_dim - d : kKvScaleDims;
    KvDims dims = load_dims(x + d, n);
    spread(dims, n);
    const BlockScale block = block_scale(dims.low, dims.high);
    const float scale = block.scale / 254.0f;
    int32_t words[kQueryRecordWords];
    auto* bytes = reinterpret_cast<int8_t*>(words);
    uint32_t high, low;
    take_bytes(dims, block.inverse, block.scale, bytes, high);
    take_bytes(dims, block.inverse * 254.0f, scale, bytes + kKvScaleDims, low);
    words[16] = static_cast<int32_t>(128 * (254 * high + low));
    __builtin_memcpy(&words[17], &scale, sizeof scale);
    __builtin_memcpy(record, words, sizeof words);
    record += kQueryRecordWords;
  }
}

struct QueryRecord {
  const float* words;
  [[nodiscard]] int32_t word(uint32_t i) const {
    int32_t w;
    __builtin_memcpy(&w, words + i, sizeof w);
    return w;
  }
  [[nodiscard]] int32_t high(uint32_t k) const { return word(k); }
  [[nodiscard]] int32_t low(uint32_t k) const { return word(kScaleWords + k); }
  // scale * the whole sum, of the sums with the two bytes.
  [[nodiscard]] F32x16 fold(I32x16 high, I32x16 low) const {
    I32x16 sum = sub(shift_left<8>(high), sub(shift_left<1>(high), low));
    if (kSignedAsUnsigned) sum = sub(sum, broadcast_int(word(2 * kScaleWords)));
    return mul(to_float(sum), broadcast(words[2 * kScaleWords + 1]));
  }
};

// M query rows times G groups of 16 positions.
template <uint32_t M, uint32_t G>
inline void score_groups_q8(const KvTile& tile, uint32_t group, const float* queries,
                            size_t query_stride, uint32_t head_dim, float* scores) {
  F32x16 sums[M][G];
  BP_UNROLL for (uint32_t m = 0; m < M; ++m) {
    BP_UNROLL for (uint32_t g = 0; g < G; ++g) sums[m][g] = zero();
  }
  const uint32_t n_words = (head_dim + 3) / 4;
  const size_t word_bytes = size_t{tile.key_stride} * 4;
  for (uint32_t first = 0; first < n_words; first += kScaleWords) {
    const uint32_t b = first / kScaleWords;
    const uint32_t n = n_words - first < kScaleWords ? n_words - first : kScaleWords;
    const float* records = queries + size_t{b} * kQueryRecordWords;
    I32x16 high[M][G], low[M][G];
    BP_UNROLL for (uint32_t m = 0; m < M; ++m) {
      BP_UNROLL for (uint32_t g = 0; g < G; ++g) high[m][g] = low[m][g] = broadcast_int(0);
    }
    for (uint32_t k = 0; k < n; ++k) {
      U8x64 keys[G];
      BP_UNROLL for (uint32_t g = 0; g < G; ++g) {
        const auto* words = static_cast<const uint8_t*>(tile.keys[group + g]);
        keys[g] = prepare_signed(load_bytes(words + (first + k) * word_bytes));
      }
      BP_UNROLL for (uint32_t m = 0; m < M; ++m) {
        const QueryRecord query{records + m * query_stride};
        BP_UNROLL for (uint32_t g = 0; g < G; ++g) {
          high[m][g] = dot_signed(high[m][g], keys[g], query.high(k));
          low[m][g] = dot_signed(low[m][g], keys[g], query.low(k));
        }
      }
    }
    BP_UNROLL for (uint32_t g = 0; g < G; ++g) {
      const F32x16 scale = load_f16(tile.key_scales[group + g] + size_t{b} * tile.scale_stride);
      BP_UNROLL for (uint32_t m = 0; m < M; ++m) {
        const QueryRecord query{records + m * query_stride};
        sums[m][g] = fma(query.fold(high[m][g], low[m][g]), scale, sums[m][g]);
      }
    }
  }
  BP_UNROLL for (uint32_t m = 0; m < M; ++m) {
    BP_UNROLL for (uint32_t g = 0; g < G; ++g) {
      store(scores + m * kTilePositions + (group + g) * 16, sums[m][g]);
    }
  }
}

template <uint32_t M>
inline void score_rows_q8(const KvTile& tile, const float* queries, size_t query_stride,
                          uint32_t head_dim, float* scores) {
  constexpr uint32_t kGroups = kMaxPanel < 8 ? 1 : M == 1 ? 4 : 2;  // by the number of registers
  uint32_t group = tile.first;
  for (; group + kGroups <= tile.end; group += kGroups) {
    score_groups_q8<M, kGroups>(tile, group, queries, query_stride, head_dim, scores);
  }
  for (; group < tile.end; ++group) {
    score_groups_q8<M, 1>(tile, group, queries, query_stride, head_dim, scores);
  }
}

void score_tile_q8(const KvTile& tile, const float* queries, size_t query_stride, uint32_t n_rows,
                   uint32_t head_dim, float* scores) {
  for_few_rows(n_rows, [&](uint32_t row, auto m) {
    score_rows_q8<m.value>(tile, queries + row * query_stride, query_stride, head_dim,
                           scores + row * kTilePositions);
  });
}

// weights[m][s][i] = probability of position i times the scale of its dimensions [32 s, 32 s + 32)
// from column on.
template <uint32_t M, uint32_t S>
inline void weigh_positions(const KvTile& tile, uint32_t column, const float* probabilities,
                            uint32_t first, uint32_t end, float (*weights)[S][kTilePositions]) {
  for (uint32_t g = first / 16; g * 16 < end; ++g) {
    const uint16_t* scales =
        tile.value_scales[g] + size_t{column / kKvScaleDims} * tile.scale_stride;
    BP_UNROLL for (uint32_t s = 0; s < S; ++s) {
      const F32x16 scale = load_f16(scales + size_t{s} * tile.scale_stride);
      BP_UNROLL for (uint32_t m = 0; m < M; ++m) {
        const F32x16 p = load(probabilities + m * kTilePositions + 16 * g);
        store(weights[m][s] + 16 * g, mul(p, scale));
      }
    }
  }
}

// C vectors of 16 columns, positions ascending.
template <uint32_t M, uint32_t C>
inline void accumulate_columns_q8(const KvTile& tile, uint32_t column, const float* probabilities,
                                  uint32_t first, uint32_t end, float* out, size_t out_stride) {
  constexpr uint32_t kScales = (C + 1) / 2;
  alignas(64) float weights[M][kScales][kTilePositions];
  weigh_positions<M, kScales>(tile, column, probabilities, first, end, weights);
  F32x16 sums[M][C];
  BP_UNROLL for (uint32_t m = 0; m < M; ++m) {
    BP_UNROLL for (uint32_t c = 0; c < C; ++c) {
      sums[m][c] = load(out + m * out_stride + column + 16 * c);
    }
  }
  for (uint32_t i = first; i < end; ++i) {
    const auto* v = static_cast<const uint8_t*>(tile.values[i / 16]) +
                    size_t{i % 16} * tile.value_stride + column;
    F32x16 values[C];
    BP_UNROLL for (uint32_t c = 0; c < C; ++c) values[c] = load_i8(v + 16 * c);
    BP_UNROLL for (uint32_t m = 0; m < M; ++m) {
      BP_UNROLL for (uint32_t c = 0; c < C; ++c) {
        sums[m][c] = fma(broadcast(weights[m][c / 2][i]), values[c], sums[m][c]);
      }
    }
  }
  BP_UNROLL for (uint32_t m = 0; m < M; ++m) {
    BP_UNROLL for (uint32_t c = 0; c < C; ++c) {
      store(out + m * out_stride + column + 16 * c, sums[m][c]);
    }
  }
}

template <uint32_t M>
inline void accumulate_rows_q8(const KvTile& tile, const float* probabilities, uint32_t first,
                               uint32_t end, float* out, size_t out_stride) {
  uint32_t column = 0;
  if constexpr (kMaxPanel >= 8) {
    for (; column + 64 <= tile.value_stride; column += 64) {
      accumulate_columns_q8<M, 4>(tile, column, probabilities, first, end, out, out_stride);
    }
  }
  for (; column < tile.value_stride; column += 16) {
    accumulate_columns_q8<M, 1>(tile, column, probabilities, first, end, out, out_stride);
  }
}

void accumulate_tile_q8(const KvTile& tile, const float* probabilities, uint32_t n_rows,
                        uint32_t first, uint32_t end, float* out, size_t out_stride) {
  for_few_rows(n_rows, [&](uint32_t row, auto m) {
    accumulate_rows_q8<m.value>(tile, probabilities + row * kTilePositions, first, end,
                                out + row * out_stride, out_stride);
  });
}

bool values_finite_q8(const KvTile& tile, uint32_t first, uint32_t end) {
  I32x16 largest = broadcast_int(0);
  const uint32_t n_scales = (tile.value_stride + kKvScaleDims - 1) / kKvScaleDims;
  for (uint32_t g = first / 16; g * 16 < end; ++g) {
    const int base = static_cast<int>(16 * g);
    for (uint32_t s = 0; s < n_scales; ++s) {
      const F32x16 scale = load_f16(tile.value_scales[g] + size_t{s} * tile.scale_stride);
      const F32x16 read = where_between(static_cast<int>(first) - base,
                                        static_cast<int>(end) - base, scale, zero());
      largest = max(largest, magnitude_bits(read));
    }
  }
  return reduce_max(largest) < kInfinityBits;
}

}  // namespace
}  // namespace bp::cpu::BP_CPU_ISA
