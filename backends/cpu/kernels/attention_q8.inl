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
  static constexpr KvType kType = KvType::kQ4_0;
  static constexpr uint32_t kParts = 2;
  static void load(const uint8_t* words, U8x64 (&parts)[kParts]) {
    const U8x64 both = load_bytes(words);
    parts[0] = bits_of<0, 4, 0>(both);
    parts[1] = bits_of<4, 4, 0>(both);
  }
  template <class Word>
  static I32x16 add(I32x16 sum, U8x64 integers, Word word) {
    return dot(sum, integers, word);
  }
  static I32x16 add(I32x16 sum, U8x64 integers, const int32_t* word) {
    return add(sum, integers, shared_word(word));
  }
};

// Four dimensions each; parts go with as many words of a query.
struct Keys8 {
  static constexpr KvType kType = KvType::kQ8_0;
  static constexpr uint32_t kParts = 1;
  static void load(const uint8_t* words, U8x64 (&parts)[kParts]) {
    parts[0] = prepare_signed(load_bytes(words));
  }
  template <class Word>
  static I32x16 add(I32x16 sum, U8x64 keys, Word word) {
    return dot_signed(sum, keys, word);
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

// M query rows times G groups of 16 positions, which stand side by side.
template <class Keys, class Rows, uint32_t G>
inline void score_groups_q8(const KvTile& tile, uint32_t group, const float* queries,
                            size_t query_stride, uint32_t head_dim, float* scores) {
  constexpr uint32_t M = Rows::kRows;
  constexpr uint32_t kParts = Keys::kParts, kScaleWords = key_words_of_scale(Keys::kType);
  F32x16 sums[M][G];
  BP_UNROLL for (uint32_t m = 0; m < M; ++m) {
    BP_UNROLL for (uint32_t g = 0; g < G; ++g) sums[m][g] = zero();
  }
  const uint32_t n_words = (head_dim + 4 * kParts - 1) / (4 * kParts);
  const auto* scales = reinterpret_cast<const uint8_t*>(tile.key_scales[group]);
  const auto* words = static_cast<const uint8_t*>(tile.keys[group]);
  const float* records = queries;
  for (uint32_t first = 0; first < n_words; first += kScaleWords) {
    const uint32_t n = n_words - first < kScaleWords ? n_words - first : kScaleWords;
    F32x16 factors[G];
    Rows::template ask_ahead<64>(tile, scales);
    BP_UNROLL for (uint32_t g = 0; g < G; ++g) {
      factors[g] = load_f16(reinterpret_cast<const uint16_t*>(scales) + 16 * g);
    }
    I32x16 all[M][G];
    BP_UNROLL for (uint32_t m = 0; m < M; ++m) {
      const QueryRecord query{records + m * query_stride};
      const I32x16 begin = broadcast_int(kSumStart + Keys::begin(query.offset()));
      BP_UNROLL for (uint32_t g = 0; g < G; ++g) all[m][g] = begin;
    }
    BP_NO_UNROLL for (uint32_t k = 0; k < n; ++k) {
      U8x64 keys[G][kParts];
      BP_UNROLL for (uint32_t g = 0; g < G; ++g) {
        const uint8_t* const from = words + k * kKeyWordBytes + 64 * g;
        Keys::load(from, keys[g]);
        Rows::template ask_ahead<64>(tile, from);
      }
      BP_UNROLL for (uint32_t m = 0; m < M; ++m) {
        const QueryRecord query{records + m * query_stride};
        BP_UNROLL for (uint32_t p = 0; p < kParts; ++p) {
          const auto word = shared_word(query.word(k * kParts + p));
          BP_UNROLL for (uint32_t g = 0; g < G; ++g) {
            all[m][g] = Keys::add(all[m][g], keys[g][p], word);
          }
        }
      }
    }
    BP_UNROLL for (uint32_t g = 0; g < G; ++g) {
      const SumScale<> scale(factors[g]);
      BP_UNROLL for (uint32_t m = 0; m < M; ++m) {
        const QueryRecord query{records + m * query_stride};
        sums[m][g] = fma(scale.times(all[m][g]), query.scale(), sums[m][g]);
      }
    }
    scales += key_scale_step(Keys::kType);
    words += key_scale_step(Keys::kType);
    records += kQueryRecordWords;
  }
  BP_UNROLL for (uint32_t m = 0; m < M; ++m) {
    BP_UNROLL for (uint32_t g = 0; g < G; ++g) {
      store(scores + m * kTilePositions + (group + g) * 16, sums[m][g]);
    }
  }
}

// In the order in which keys lie: memory is read faster.
template <class Keys, class Rows>
inline void score_rows_q8(const KvTile& tile, const float* queries, size_t query_stride,
                          uint32_t head_dim, float* scores) {
  constexpr uint32_t kTogether = kManyRegisters ? kKeyPositions / 16 : 1;
  uint32_t group = tile.first;
  while (group < tile.end) {
    if (group % kTogether == 0 && group + kTogether <= tile.end) {
      score_groups_q8<Keys, Rows, kTogether>(tile, group, queries, query_stride, head_dim, scores);
      group += kTogether;
    } else {
      score_groups_q8<Keys, Rows, 1>(tile, group, queries, query_stride, head_dim, scores);
      ++group;
    }
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
  static constexpr KvType kType = KvType::kQ8_0;
  static constexpr uint32_t kParts = 1;
  // Scales are not negative, thus no weight is: nearly all that a byte holds.
  static constexpr int32_t kMost = 254;
  static constexpr int32_t kMiddle = kCountsMiddle;
  static constexpr int32_t kExcess = 0;  // of a sum, for each unit of the weights
  static void load(const uint8_t* words, U8x64 (&parts)[kParts]) { parts[0] = load_bytes(words); }
  static I32x16 add(I32x16 sum, U8x64 values, const int32_t* weights) {
    return dot_counts(sum, values, weights);
  }
  static void store_weights(uint8_t* to, const I32x16 (&weights)[kTileGroups]) {
    store_counts(to, weights);
  }
};

struct Values4 : Words4 {
  static constexpr int32_t kMost = 127, kMiddle = 0, kExcess = 8;
  static void store_weights(uint8_t* to, const I32x16 (&weights)[kTileGroups]) {
    BP_UNROLL for (uint32_t g = 0; g < kTileGroups; ++g) {
      store_i8(reinterpret_cast<int8_t*>(to) + 16 * g, weights[g]);
    }
  }
};

// The scales of 32 columns; 0 outside [first, end).
struct ValueScales {
  F32x16 of[kTileGroups];
};

// Of 32 columns from one on, for a group of positions.
inline const uint16_t* value_scales_at(const KvTile& tile, uint32_t group, uint32_t column) {
  return tile.value_scales[group] + size_t{column / kKvScaleDims} * tile.block_size;
}

__attribute__((noinline)) inline void cut_value_scales(const KvTile& tile, uint32_t column,
                                                       uint32_t first, uint32_t end,
                                                       ValueScales& scales) {
  for (uint32_t g = 0; g < kTileGroups; ++g) {
    scales.of[g] = zero();
    if (16 * g + 16 <= first || 16 * g >= end) continue;
    const int base = static_cast<int>(16 * g);
    scales.of[g] = where_between(static_cast<int>(first) - base, static_cast<int>(end) - base,
                                 load_f16(value_scales_at(tile, g, column)), zero());
  }
}

inline ValueScales value_scales(const KvTile& tile, uint32_t column, uint32_t first, uint32_t end) {
  ValueScales scales;
  if (first == 0 && end == kTilePositions) {
    BP_UNROLL for (uint32_t g = 0; g < kTileGroups; ++g) {
      scales.of[g] = load_f16(value_scales_at(tile, g, column));
    }
  } else {
    cut_value_scales(tile, column, first, end, scales);
  }
  return scales;
}

// What the positions of a tile weigh of M rows and 32 columns each: their probabilities times the
// columns' scales, as integers the largest of which is kMost. What stands out among probabilities
// often has small values, and what is small beside others of a long context is not nothing.
constexpr uint32_t kScalesTogether = 8;
template <uint32_t M>
struct ValueWeights {
  alignas(64) int32_t words[kScalesTogether][M][kTilePositions / 4];
  ValueScales scales[kScalesTogether];
  alignas(64) float units[kScalesTogether][16];     // a weight is units[m] times its integer
  alignas(64) float inverses[kScalesTogether][16];  // and the integer inverses[m] times the weight
  int32_t begin[kScalesTogether][M];                // where each column's sum does
};

template <class Values, uint32_t M>
inline void find_units(const float* probabilities, uint32_t i, ValueWeights<M>& weights) {
  static_assert(M <= kFewRows);
  const ValueScales& scales = weights.scales[i];
  I32x16 most[kFewRows];
  BP_UNROLL for (uint32_t m = 0; m < kFewRows; ++m) most[m] = broadcast_int(0);
  BP_UNROLL for (uint32_t m = 0; m < M; ++m) {
    BP_UNROLL for (uint32_t g = 0; g < kTileGroups; ++g) {
      const F32x16 product = mul(load(probabilities + m * kTilePositions + 16 * g), scales.of[g]);
      most[m] = max(most[m], magnitude_bits(product));
    }
  }
  const BlockScales units = scales_to(Values::kMost, float_of_bits(reduce_max_each(most)));
  store(weights.units[i], units.scale);
  store(weights.inverses[i], units.inverse);
}

template <class Values, uint32_t M>
inline void weigh_positions(const float* probabilities, uint32_t i, ValueWeights<M>& weights) {
  const ValueScales& scales = weights.scales[i];
  BP_UNROLL for (uint32_t m = 0; m < M; ++m) {
    const F32x16 inverse = broadcast(weights.inverses[i][m]);
    I32x16 integers[kTileGroups];
    BP_UNROLL for (uint32_t g = 0; g < kTileGroups; ++g) {
      const F32x16 product = mul(load(probabilities + m * kTilePositions + 16 * g), scales.of[g]);
      integers[g] = to_int(mul(product, inverse));
    }
    Values::store_weights(reinterpret_cast<uint8_t*>(weights.words[i][m]), integers);
    if constexpr (Values::kExcess != 0) {
      const I32x16 total = add(add(integers[0], integers[1]), add(integers[2], integers[3]));
      // Unsigned: what stands for a NaN may overflow.
      const auto sum = static_cast<uint32_t>(reduce_add(total));
      weights.begin[i][m] = static_cast<int32_t>(0 - Values::kExcess * sum);
    }
  }
}

// The 32 columns of the i-th scales, C vectors of 16 of them at once: both where registers hold
// their sums, so that memory is read as it lies.
template <class Values, class Rows, uint32_t C>
inline void accumulate_columns_q8(const KvTile& tile, uint32_t column, uint32_t from,
                                  const ValueWeights<Rows::kRows>& weights, uint32_t i,
                                  uint32_t first, uint32_t end, float* out, size_t out_stride) {
  constexpr uint32_t M = Rows::kRows, kParts = Values::kParts, kLoads = C / kParts;
  constexpr uint32_t kQuadBytes = value_quad_bytes(Values::kType);
  I32x16 sums[M][C], middle[C];  // the latter of kMiddle, for all rows
  BP_UNROLL for (uint32_t m = 0; m < M; ++m) {
    const I32x16 begin = broadcast_int(Values::kExcess != 0 ? weights.begin[i][m] : 0);
    BP_UNROLL for (uint32_t c = 0; c < C; ++c) sums[m][c] = begin;
  }
  BP_UNROLL for (uint32_t c = 0; c < C; ++c) middle[c] = broadcast_int(0);
  const size_t at = size_t{column / kKvScaleDims} * tile.block_size * (kQuadBytes / 4) + from * 4;
  const int32_t* group_weights = weights.words[i][0] + first / 16 * 4;
  for (uint32_t g = first / 16; g * 16 < end; ++g, group_weights += 4) {
    const auto* quads = static_cast<const uint8_t*>(tile.values[g]) + at;
    BP_NO_UNROLL for (uint32_t quad = 0; quad < 4; ++quad, quads += kQuadBytes) {
      U8x64 values[kLoads][kParts];
      BP_UNROLL for (uint32_t l = 0; l < kLoads; ++l) {
        Values::load(quads + 64 * l, values[l]);
        Rows::template ask_ahead<64>(tile, quads + 64 * l);
      }
      BP_UNROLL for (uint32_t c = 0; c < C; ++c) {
        const U8x64 part = values[c / kParts][c % kParts];
        BP_UNROLL for (uint32_t m = 0; m < M; ++m) {
          sums[m][c] =
              Values::add(sums[m][c], part, group_weights + m * (kTilePositions / 4) + quad);
        }
        if constexpr (Values::kMiddle != 0) {
          middle[c] = dot_signed(middle[c], part, Values::kMiddle * 0x01010101);
        }
      }
    }
  }
  BP_UNROLL for (uint32_t m = 0; m < M; ++m) {
    BP_UNROLL for (uint32_t c = 0; c < C; ++c) {
      I32x16 sum = sums[m][c];
      if constexpr (Values::kMiddle != 0) sum = add(sum, middle[c]);
      float* to = out + m * out_stride + column + from + 16 * c;
      store(to, fma(to_float(sum), broadcast(weights.units[i][m]), load(to)));
    }
  }
}

// For those of the next tile that take the place of these.
template <class Rows>
inline void ask_for_scales(const KvTile& tile, uint32_t column, uint32_t first, uint32_t end) {
  constexpr uint32_t kLineGroups = 2;
  for (uint32_t g = first / 16; g * 16 < end; g += kLineGroups) {
    const auto* scales = reinterpret_cast<const uint8_t*>(value_scales_at(tile, g, column));
    if constexpr (Rows::kAsks) ask_next<Rows::kTuning>(scales + tile.ahead);
  }
}

// All units first: what waits for one another of 32 columns does not for those of others.
template <class Values, class Rows>
__attribute__((noinline)) void accumulate_rows_q8(const KvTile& tile, const float* probabilities,
                                                  uint32_t first, uint32_t end, float* out,
                                                  size_t out_stride) {
  constexpr uint32_t kWide = kScalesTogether * kKvScaleDims;
  // Few rows' weights in turn with products, so that memory is not left idle; more rows' before.
  constexpr bool kInTurn = Rows::kRows <= 2;
  ValueWeights<Rows::kRows> weights;
  for (uint32_t begin = 0; begin < tile.value_stride; begin += kWide) {
    const uint32_t rest = tile.value_stride - begin;
    const uint32_t n_scales = ((rest < kWide ? rest : kWide) + kKvScaleDims - 1) / kKvScaleDims;
    for (uint32_t i = 0; i < n_scales; ++i) {
      const uint32_t column = begin + i * kKvScaleDims;
      ask_for_scales<Rows>(tile, column, first, end);
      weights.scales[i] = value_scales(tile, column, first, end);
      find_units<Values>(probabilities, i, weights);
    }
    constexpr uint32_t C = kManyRegisters ? kKvScaleDims / 16 : Values::kParts;
    for (uint32_t i = 0; !kInTurn && i < n_scales; ++i) {
      weigh_positions<Values>(probabilities, i, weights);
    }
    for (uint32_t i = 0; i < n_scales; ++i) {
      if constexpr (kInTurn) weigh_positions<Values>(probabilities, i, weights);
      BP_UNROLL for (uint32_t from = 0; from < kKvScaleDims; from += 16 * C) {
        accumulate_columns_q8<Values, Rows, C>(tile, begin + i * kKvScaleDims, from, weights, i,
                                               first, end, out, out_stride);
      }
    }
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

}  // namespace
}  // namespace bp::cpu::BP_CPU_ISA
