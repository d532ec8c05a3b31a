// Attention to one tile of 64 positions whose keys or values are 8-bit or 4-bit integers with a
// scale per 32 dimensions. Of keys, sums within a scale are exact; scales fold in ascending
// dimensions. Of values, sums within the tile are: probabilities times the scales of their
// positions become integers.
#pragma once

#include "backends/cpu/kernels/few_rows.inl"
#include "backends/cpu/kernels/kernel_table.hpp"
#include "backends/cpu/kernels/kv_quantize.inl"
#include "backends/cpu/kernels/sum_scale.inl"
#include "backends/cpu/kernels/unroll.hpp"

namespace bp::cpu::BP_CPU_ISA {
namespace {

// Words of four bytes, which products take whole. Of a key one for each position, of a value one
// for each column; kParts vectors of integers come of 16 words.
struct Words4 {
  static constexpr uint32_t kParts = 2;
  static constexpr bool kAsksAgain = false;  // see ask_ahead: 8 bits alone read lines so fast
  static void load(const uint8_t* words, U8x64 (&parts)[kParts]) {
    const U8x64 both = load_bytes(words);
    parts[0] = bits_of<0, 4, 0>(both);
    parts[1] = bits_of<4, 4, 0>(both);
  }
  static I32x16 add(I32x16 sum, U8x64 integers, const int32_t* factors) {
    return dot(sum, integers, factors);
  }
};

// Four dimensions each; parts go with as many words of a query.
struct Keys8 {
  static constexpr uint32_t kParts = 1;
  static constexpr bool kAsksAgain = true;
  static void load(const uint8_t* words, U8x64 (&parts)[kParts]) {
    parts[0] = prepare_signed(load_bytes(words));
  }
  static I32x16 add(I32x16 sum, U8x64 keys, const int32_t* query) {
    return dot_signed(sum, keys, query);
  }
  // What a sum begins with, given -128 times the query's sum of integers.
  static int32_t begin(int32_t offset) { return kSignedAsUnsigned ? offset : 0; }
};

struct Keys4 : Words4 {
  static int32_t begin(int32_t offset) { return offset / 16; }
};

struct QueryRecord {
  const float* words;
  // Integers, which quantize_query left here.
  [[nodiscard]] const int32_t* word(uint32_t i) const {
    return reinterpret_cast<const int32_t*>(words) + i;
  }
  [[nodiscard]] int32_t offset() const { return *word(kQueryWords); }
  [[nodiscard]] F32x16 scale() const { return broadcast(words[kQueryWords + 1]); }
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
    I32x16 all[M][G];
    BP_UNROLL for (uint32_t m = 0; m < M; ++m) {
      const QueryRecord query{records + m * query_stride};
      const I32x16 begin = broadcast_int(kSumStart + Keys::begin(query.offset()));
      BP_UNROLL for (uint32_t g = 0; g < G; ++g) all[m][g] = begin;
    }
    for (uint32_t k = 0; k < n; ++k) {
      U8x64 keys[G][kParts];
      BP_UNROLL for (uint32_t g = 0; g < G; ++g) {
        const auto* words =
            static_cast<const uint8_t*>(tile.keys[group + g]) + (first + k) * word_bytes;
        Keys::load(words, keys[g]);
        Rows::template ask_ahead<64, Keys::kAsksAgain>(tile, words);
      }
      BP_UNROLL for (uint32_t m = 0; m < M; ++m) {
        const QueryRecord query{records + m * query_stride};
        BP_UNROLL for (uint32_t p = 0; p < kParts; ++p) {
          BP_UNROLL for (uint32_t g = 0; g < G; ++g) {
            all[m][g] = Keys::add(all[m][g], keys[g][p], query.word(k * kParts + p));
          }
        }
      }
    }
    BP_UNROLL for (uint32_t g = 0; g < G; ++g) {
      const uint16_t* scales = tile.key_scales[group + g] + size_t{b} * tile.scale_stride;
      const SumScale<> scale(load_f16(scales));
      Rows::template ask_ahead<32>(tile, scales);
      BP_UNROLL for (uint32_t m = 0; m < M; ++m) {
        const QueryRecord query{records + m * query_stride};
        sums[m][g] = fma(scale.times(all[m][g]), query.scale(), sums[m][g]);
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

// Four positions each; parts are of 16 columns and of the next 16. Weights, integers up to kMost,
// are kept less kMiddle.
struct Values8 {
  static constexpr uint32_t kParts = 1;
  static constexpr bool kAsksAgain = true;
  // Scales are not negative, thus no weight is: nearly all that a byte holds.
  static constexpr int32_t kMost = 254;
  static constexpr int32_t kMiddle = kCountsMiddle;
  static constexpr int32_t kExcess = 0;  // of a sum, for each unit of the weights
  static void load(const uint8_t* words, U8x64 (&parts)[kParts]) { parts[0] = load_bytes(words); }
  static I32x16 add(I32x16 sum, U8x64 values, const int32_t* weights) {
    return dot_counts(sum, values, weights);
  }
  static void store_weights(uint8_t* to, I32x16 weights) { store_counts(to, weights); }
};

struct Values4 : Words4 {
  static constexpr int32_t kMost = 127, kMiddle = 0, kExcess = 8;
  static void store_weights(uint8_t* to, I32x16 weights) {
    store_i8(reinterpret_cast<int8_t*>(to), weights);
  }
};

// The scales of 32 columns in units of the largest; 0 outside [first, end).
struct ValueScales {
  F32x16 units[kTileGroups];
  float unit;
};

// Of the 32 columns from one on, for a group of positions.
inline const uint16_t* value_scales_at(const KvTile& tile, uint32_t group, uint32_t column) {
  return tile.value_scales[group] + size_t{column / kKvScaleDims} * tile.scale_stride;
}

inline ValueScales value_scales(const KvTile& tile, uint32_t column, uint32_t first, uint32_t end) {
  ValueScales all;
  I32x16 magnitudes = broadcast_int(0);
  BP_UNROLL for (uint32_t g = 0; g < kTileGroups; ++g) {
    const int base = static_cast<int>(16 * g);
    all.units[g] = zero();
    if (16 * g + 16 <= first || 16 * g >= end) continue;
    all.units[g] = where_between(static_cast<int>(first) - base, static_cast<int>(end) - base,
                                 load_f16(value_scales_at(tile, g, column)), zero());
    magnitudes = max(magnitudes, magnitude_bits(all.units[g]));
  }
  const BlockScale block = scale_to(1, magnitudes);
  BP_UNROLL for (uint32_t g = 0; g < kTileGroups; ++g) {
    all.units[g] = mul(all.units[g], broadcast(block.inverse));
  }
  all.unit = block.scale;
  return all;
}

// The scales of up to kScalesTogether times 32 columns.
constexpr uint32_t kScalesTogether = 8;
struct WideScales {
  ValueScales of[kScalesTogether];
  F32x16 most[kTileGroups];  // the largest of a position's
};

inline void load_wide(const KvTile& tile, uint32_t column, uint32_t n_scales, uint32_t first,
                      uint32_t end, WideScales& wide) {
  I32x16 most[kTileGroups];
  BP_UNROLL for (uint32_t g = 0; g < kTileGroups; ++g) most[g] = broadcast_int(0);
  for (uint32_t i = 0; i < n_scales; ++i) {
    wide.of[i] = value_scales(tile, column + i * kKvScaleDims, first, end);
    BP_UNROLL for (uint32_t g = 0; g < kTileGroups; ++g) {
      most[g] = max(most[g], magnitude_bits(wide.of[i].units[g]));
    }
  }
  BP_UNROLL for (uint32_t g = 0; g < kTileGroups; ++g) wide.most[g] = float_of_bits(most[g]);
}

// What makes a row's probabilities times scales weights, the largest of which is then kMost: what
// stands out among probabilities often has small values, and what is small beside others of a long
// context is not nothing.
template <class Values>
inline BlockScale weight_scale(const WideScales& wide, const float* probabilities) {
  I32x16 magnitudes = broadcast_int(0);
  BP_UNROLL for (uint32_t g = 0; g < kTileGroups; ++g) {
    const F32x16 product = mul(load(probabilities + 16 * g), wide.most[g]);
    magnitudes = max(magnitudes, magnitude_bits(product));
  }
  return scale_to(Values::kMost, magnitudes);
}

// Of a row and 32 columns, for all positions.
struct ValueWeights {
  alignas(64) int32_t words[kTilePositions / 4];
  int32_t begin;  // where each column's sum does
  float unit;
};

template <class Values>
inline void weigh_positions(const ValueScales& scales, const float* probabilities,
                            const BlockScale& of_row, ValueWeights& weights) {
  weights.unit = scales.unit * of_row.scale;
  I32x16 total = broadcast_int(0);
  BP_UNROLL for (uint32_t g = 0; g < kTileGroups; ++g) {
    const F32x16 share = mul(load(probabilities + 16 * g), broadcast(of_row.inverse));
    const I32x16 weight = to_int(mul(share, scales.units[g]));
    Values::store_weights(reinterpret_cast<uint8_t*>(weights.words + 4 * g), weight);
    if constexpr (Values::kExcess != 0) total = add(total, weight);
  }
  weights.begin = 0;
  if constexpr (Values::kExcess != 0) {
    // Unsigned: what stands for a NaN may overflow.
    const auto sum = static_cast<uint32_t>(reduce_add(total));
    weights.begin = static_cast<int32_t>(0 - Values::kExcess * sum);
  }
}

// C vectors of 16 columns that share their scales.
template <class Values, class Rows, uint32_t C>
inline void accumulate_columns_q8(const KvTile& tile, uint32_t column, const ValueWeights* weights,
                                  uint32_t first, uint32_t end, float* out, size_t out_stride) {
  constexpr uint32_t M = Rows::kRows, kParts = Values::kParts, kLoads = C / kParts;
  constexpr int32_t kMiddles = Values::kMiddle * 0x01010101;
  I32x16 sums[M][C], middle[C];  // the latter of kMiddle, for all rows
  BP_UNROLL for (uint32_t m = 0; m < M; ++m) {
    const I32x16 begin = broadcast_int(weights[m].begin);
    BP_UNROLL for (uint32_t c = 0; c < C; ++c) sums[m][c] = begin;
  }
  BP_UNROLL for (uint32_t c = 0; c < C; ++c) middle[c] = broadcast_int(0);
  const size_t load_bytes = size_t{tile.key_stride} * 16;
  for (uint32_t g = first / 16; g * 16 < end; ++g) {
    const auto* words =
        static_cast<const uint8_t*>(tile.values[g]) + column / (16 * kParts) * load_bytes;
    BP_UNROLL_TWO for (uint32_t quad = 4 * g; quad < 4 * g + 4; ++quad, words += 64) {
      U8x64 values[kLoads][kParts];
      BP_UNROLL for (uint32_t l = 0; l < kLoads; ++l) {
        Values::load(words + l * load_bytes, values[l]);
        Rows::template ask_ahead<64, Values::kAsksAgain>(tile, words + l * load_bytes);
      }
      BP_UNROLL for (uint32_t c = 0; c < C; ++c) {
        const U8x64 part = values[c / kParts][c % kParts];
        BP_UNROLL for (uint32_t m = 0; m < M; ++m) {
          sums[m][c] = Values::add(sums[m][c], part, &weights[m].words[quad]);
        }
        if constexpr (Values::kMiddle != 0) middle[c] = dot_signed(middle[c], part, kMiddles);
      }
    }
  }
  BP_UNROLL for (uint32_t m = 0; m < M; ++m) {
    BP_UNROLL for (uint32_t c = 0; c < C; ++c) {
      if constexpr (Values::kMiddle != 0) sums[m][c] = add(sums[m][c], middle[c]);
      float* to = out + m * out_stride + column + 16 * c;
      store(to, fma(to_float(sums[m][c]), broadcast(weights[m].unit), load(to)));
    }
  }
}

// The columns of a scale: 32, of the last one perhaps 16.
template <class Values, class Rows>
inline void accumulate_scale(const KvTile& tile, uint32_t column, const ValueScales& scales,
                             const float* probabilities, const BlockScale* of_rows, uint32_t first,
                             uint32_t end, float* out, size_t out_stride) {
  constexpr uint32_t M = Rows::kRows;
  // Both vectors of columns together where registers hold their sums or they share what is loaded,
  // but few rows in the order in which memory lies.
  constexpr bool kInOrder = Rows::kAlone && M <= 2;
  constexpr uint32_t C = kManyRegisters && !kInOrder ? 2 : Values::kParts;
  ValueWeights weights[M];
  BP_UNROLL for (uint32_t m = 0; m < M; ++m) {
    weigh_positions<Values>(scales, probabilities + m * kTilePositions, of_rows[m], weights[m]);
  }
  const uint32_t last =
      tile.value_stride < column + kKvScaleDims ? tile.value_stride : column + kKvScaleDims;
  for (; column + 16 * C <= last; column += 16 * C) {
    accumulate_columns_q8<Values, Rows, C>(tile, column, weights, first, end, out, out_stride);
  }
  if constexpr (C > Values::kParts) {
    if (column == last) return;
    accumulate_columns_q8<Values, Rows, Values::kParts>(tile, column, weights, first, end, out,
                                                        out_stride);
  }
}

// For those of the next tile that take the place of these.
template <Tuning T>
inline void ask_for_scales(const KvTile& tile, uint32_t column, uint32_t n_scales, uint32_t first,
                           uint32_t end) {
  constexpr uint32_t kLineGroups = 2;
  for (uint32_t i = 0; i < n_scales; ++i, column += kKvScaleDims) {
    for (uint32_t g = first / 16; g * 16 < end; g += kLineGroups) {
      const auto* scales = reinterpret_cast<const uint8_t*>(value_scales_at(tile, g, column));
      ask_next<T>(scales + tile.ahead);
    }
  }
}

// A scale's columns after another's: memory is read faster in the order in which it lies.
template <Tuning T, class Values>
void accumulate_tile_q8(const KvTile& tile, const float* probabilities, uint32_t n_rows,
                        uint32_t first, uint32_t end, float* out, size_t out_stride) {
  constexpr uint32_t kWide = kScalesTogether * kKvScaleDims;
  for (uint32_t begin = 0; begin < tile.value_stride; begin += kWide) {
    const uint32_t rest = tile.value_stride - begin;
    const uint32_t n_scales = ((rest < kWide ? rest : kWide) + kKvScaleDims - 1) / kKvScaleDims;
    WideScales wide;
    load_wide(tile, begin, n_scales, first, end, wide);
    ask_for_scales<T>(tile, begin, n_scales, first, end);
    BlockScale of_rows[kMaxQueryRows];
    for (uint32_t r = 0; r < n_rows; ++r) {
      of_rows[r] = weight_scale<Values>(wide, probabilities + r * kTilePositions);
    }
    for (uint32_t i = 0; i < n_scales; ++i) {
      for_few_rows<T>(n_rows, [&](uint32_t row, auto rows) {
        accumulate_scale<Values, decltype(rows)>(
            tile, begin + i * kKvScaleDims, wide.of[i], probabilities + row * kTilePositions,
            of_rows + row, first, end, out + row * out_stride, out_stride);
      });
    }
  }
}

}  // namespace
}  // namespace bp::cpu::BP_CPU_ISA
