// Attention to one tile of 64 positions whose keys or values are 8-bit or 4-bit integers with a
// scale per 32 dimensions. Sums within a scale are exact; scales fold in ascending dimensions.
#pragma once

#include "backends/cpu/kernels/few_rows.inl"
#include "backends/cpu/kernels/kernel_table.hpp"
#include "backends/cpu/kernels/kv_quantize.inl"
#include "backends/cpu/kernels/unroll.hpp"

namespace bp::cpu::BP_CPU_ISA {
namespace {

// Words of four bytes, one for each position; kParts vectors of four dimensions come of each, which
// go with as many words of a query.
struct Keys8 {
  static constexpr uint32_t kParts = 1;
  static void load(const uint8_t* words, U8x64 (&parts)[kParts]) {
    parts[0] = prepare_signed(load_bytes(words));
  }
  static I32x16 add(I32x16 sum, U8x64 keys, int32_t query) { return dot_signed(sum, keys, query); }
  // What a sum has too much for 128 times the query's sum of integers.
  static I32x16 excess(int32_t offset) { return broadcast_int(kSignedAsUnsigned ? offset : 0); }
};

struct Keys4 {
  static constexpr uint32_t kParts = 2;
  static void load(const uint8_t* words, U8x64 (&parts)[kParts]) {
    const U8x64 both = load_bytes(words);
    parts[0] = low_nibbles(both);
    parts[1] = high_nibbles(both);
  }
  static I32x16 add(I32x16 sum, U8x64 keys, int32_t query) { return dot(sum, keys, query); }
  static I32x16 excess(int32_t offset) { return broadcast_int(offset / 16); }
};

constexpr uint32_t kQueryWords = kKvScaleDims / 4;  // of the high bytes of a record

struct QueryRecord {
  const float* words;
  [[nodiscard]] int32_t word(uint32_t i) const {
    int32_t w;
    __builtin_memcpy(&w, words + i, sizeof w);
    return w;
  }
  [[nodiscard]] int32_t high(uint32_t k) const { return word(k); }
  [[nodiscard]] int32_t low(uint32_t k) const { return word(kQueryWords + k); }
  // scale * the whole sum, of the sums with the two bytes.
  template <class Keys>
  [[nodiscard]] F32x16 fold(I32x16 high, I32x16 low) const {
    const I32x16 sum = sub(shift_left<8>(high), sub(shift_left<1>(high), low));
    return mul(to_float(sub(sum, Keys::excess(word(2 * kQueryWords)))),
               broadcast(words[2 * kQueryWords + 1]));
  }
};

// M query rows times G groups of 16 positions.
template <class Keys, class Rows, uint32_t G>
inline void score_groups_q8(const KvTile& tile, uint32_t group, const float* queries,
                            size_t query_stride, uint32_t head_dim, float* scores) {
  constexpr uint32_t M = Rows::kRows;
  constexpr uint32_t kParts = Keys::kParts, kScaleWords = kKvScaleDims / 4 / kParts;
  F32x16 sums[M][G];
  BP_UNROLL for (uint32_t m = 0; m < M; ++m) {
    BP_UNROLL for (uint32_t g = 0; g < G; ++g) sums[m][g] = zero();
  }
  const uint32_t n_words = (head_dim + 4 * kParts - 1) / (4 * kParts);
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
      U8x64 keys[G][kParts];
      BP_UNROLL for (uint32_t g = 0; g < G; ++g) {
        const auto* words =
            static_cast<const uint8_t*>(tile.keys[group + g]) + (first + k) * word_bytes;
        Keys::load(words, keys[g]);
        Rows::template ask_ahead<64>(tile, words);
      }
      BP_UNROLL for (uint32_t m = 0; m < M; ++m) {
        const QueryRecord query{records + m * query_stride};
        BP_UNROLL for (uint32_t p = 0; p < kParts; ++p) {
          BP_UNROLL for (uint32_t g = 0; g < G; ++g) {
            high[m][g] = Keys::add(high[m][g], keys[g][p], query.high(k * kParts + p));
            low[m][g] = Keys::add(low[m][g], keys[g][p], query.low(k * kParts + p));
          }
        }
      }
    }
    BP_UNROLL for (uint32_t g = 0; g < G; ++g) {
      const uint16_t* scales = tile.key_scales[group + g] + size_t{b} * tile.scale_stride;
      const F32x16 scale = load_f16(scales);
      Rows::template ask_ahead<32>(tile, scales);
      BP_UNROLL for (uint32_t m = 0; m < M; ++m) {
        const QueryRecord query{records + m * query_stride};
        const F32x16 sum = query.template fold<Keys>(high[m][g], low[m][g]);
        sums[m][g] = fma(sum, scale, sums[m][g]);
      }
    }
  }
  BP_UNROLL for (uint32_t m = 0; m < M; ++m) {
    BP_UNROLL for (uint32_t g = 0; g < G; ++g) {
      store(scores + m * kTilePositions + (group + g) * 16, sums[m][g]);
    }
  }
}

template <class Keys, class Rows>
inline void score_rows_q8(const KvTile& tile, const float* queries, size_t query_stride,
                          uint32_t head_dim, float* scores) {
  constexpr uint32_t kGroups = !kManyRegisters ? 1 : Rows::kRows <= 2 ? 4 : 2;  // as registers hold
  uint32_t group = tile.first;
  for (; group + kGroups <= tile.end; group += kGroups) {
    score_groups_q8<Keys, Rows, kGroups>(tile, group, queries, query_stride, head_dim, scores);
  }
  for (; group < tile.end; ++group) {
    score_groups_q8<Keys, Rows, 1>(tile, group, queries, query_stride, head_dim, scores);
  }
}

template <Tuning T, class Keys>
void score_tile_q8(const KvTile& tile, const float* queries, size_t query_stride, uint32_t n_rows,
                   uint32_t head_dim, float* scores) {
  for_few_rows<T>(n_rows, [&](uint32_t row, auto rows) {
    score_rows_q8<Keys, decltype(rows)>(tile, queries + row * query_stride, query_stride, head_dim,
                                        scores + row * kTilePositions);
  });
}

struct Values8 {
  static constexpr uint32_t kVectors = 1;  // of 16 columns, loaded together
  // Returns where they are.
  template <uint32_t C>
  static const uint8_t* load(const KvTile& tile, uint32_t i, uint32_t column, F32x16 (&values)[C]) {
    const auto* v = static_cast<const uint8_t*>(tile.values[i / 16]) +
                    size_t{i % 16} * tile.value_stride + column;
    BP_UNROLL for (uint32_t c = 0; c < C; ++c) values[c] = load_i8(v + 16 * c);
    return v;
  }
};

struct Values4 {
  static constexpr uint32_t kVectors = 2;
  template <uint32_t C>
  static const uint8_t* load(const KvTile& tile, uint32_t i, uint32_t column, F32x16 (&values)[C]) {
    const auto* v = static_cast<const uint8_t*>(tile.values[i / 16]) +
                    (size_t{i % 16} * tile.value_stride + column) / 2;
    BP_UNROLL for (uint32_t c = 0; c < C; c += 2) {
      load_nibbles(v + 8 * c, values[c], values[c + 1]);
    }
    return v;
  }
};

// weights[m][s][i] = probability of position i times the scale of its dimensions [32 s, 32 s + 32)
// from column on.
template <class Rows, uint32_t S>
inline void weigh_positions(const KvTile& tile, uint32_t column, const float* probabilities,
                            uint32_t first, uint32_t end, float (*weights)[S][kTilePositions]) {
  constexpr uint32_t M = Rows::kRows;
  for (uint32_t g = first / 16; g * 16 < end; ++g) {
    const uint16_t* scales =
        tile.value_scales[g] + size_t{column / kKvScaleDims} * tile.scale_stride;
    BP_UNROLL for (uint32_t s = 0; s < S; ++s) {
      const F32x16 scale = load_f16(scales + size_t{s} * tile.scale_stride);
      Rows::template ask_ahead<32>(tile, scales + size_t{s} * tile.scale_stride);
      BP_UNROLL for (uint32_t m = 0; m < M; ++m) {
        const F32x16 p = load(probabilities + m * kTilePositions + 16 * g);
        store(weights[m][s] + 16 * g, mul(p, scale));
      }
    }
  }
}

// C vectors of 16 columns, positions ascending.
template <class Values, class Rows, uint32_t C>
inline void accumulate_columns_q8(const KvTile& tile, uint32_t column, const float* probabilities,
                                  uint32_t first, uint32_t end, float* out, size_t out_stride) {
  constexpr uint32_t M = Rows::kRows, kScales = (C + 1) / 2;
  alignas(64) float weights[M][kScales][kTilePositions];
  weigh_positions<Rows, kScales>(tile, column, probabilities, first, end, weights);
  constexpr uint32_t kBytes = 16 * C / Values::kVectors;
  F32x16 sums[M][C];
  BP_UNROLL for (uint32_t m = 0; m < M; ++m) {
    BP_UNROLL for (uint32_t c = 0; c < C; ++c) {
      sums[m][c] = load(out + m * out_stride + column + 16 * c);
    }
  }
  for (uint32_t i = first; i < end; ++i) {
    F32x16 values[C];
    Rows::template ask_ahead<kBytes>(tile, Values::load(tile, i, column, values));
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

template <class Values, class Rows>
inline void accumulate_rows_q8(const KvTile& tile, const float* probabilities, uint32_t first,
                               uint32_t end, float* out, size_t out_stride) {
  constexpr uint32_t kVectors =
      Rows::kColumnVectors < Values::kVectors ? Values::kVectors : Rows::kColumnVectors;
  constexpr uint32_t kStep = 16 * Values::kVectors;
  uint32_t column = 0;
  for (; column + 16 * kVectors <= tile.value_stride; column += 16 * kVectors) {
    accumulate_columns_q8<Values, Rows, kVectors>(tile, column, probabilities, first, end, out,
                                                  out_stride);
  }
  for (; column < tile.value_stride; column += kStep) {
    accumulate_columns_q8<Values, Rows, Values::kVectors>(tile, column, probabilities, first, end,
                                                          out, out_stride);
  }
}

template <Tuning T, class Values>
void accumulate_tile_q8(const KvTile& tile, const float* probabilities, uint32_t n_rows,
                        uint32_t first, uint32_t end, float* out, size_t out_stride) {
  for_few_rows<T>(n_rows, [&](uint32_t row, auto rows) {
    accumulate_rows_q8<Values, decltype(rows)>(tile, probabilities + row * kTilePositions, first,
                                               end, out + row * out_stride, out_stride);
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
