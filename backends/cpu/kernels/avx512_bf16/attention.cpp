// Attention to keys and values in pairs of bf16, two dimensions or positions an instruction, as
// they are or in 12 bits (PackedTile).

#include <type_traits>

#include "backends/cpu/kernels/simd_avx512.hpp"
// clang-format keeps what defines the lanes first.
#include "backends/cpu/kernels/avx512_bf16/by_floats.hpp"
#include "backends/cpu/kernels/avx512_bf16/packed_tile.hpp"
#include "backends/cpu/kernels/bf16_softmax.inl"
#include "backends/cpu/kernels/few_rows.inl"
#include "backends/cpu/kernels/kernel_table.hpp"
#include "backends/cpu/kernels/unroll.hpp"
#include "backends/cpu/kernels/with_rows.hpp"

namespace bp::cpu::avx512_bf16 {
namespace {

using namespace avx512;

constexpr uint32_t kRows = 6;  // of queries, whose sums fit into registers

// Vectors of 16 positions or columns beside them. Memory is read faster in the order in which it
// lies: vector after vector; of products of floats, two of which add to a sum one after the other,
// two side by side.
template <class Rows>
constexpr uint32_t kVectors = Rows::kAlone ? (kByFloats<Rows::kTuning> ? 2 : 1) : 4;

constexpr ptrdiff_t kLineBytes = kPairElements * sizeof(uint16_t);

// Rows of queries and of probabilities are words of two dimensions or positions.
struct PairProducts {
  using Probabilities = StorePairs;
  static constexpr auto pack_query = pack_query_in_pairs;

  // Adds C vectors of 16 lanes of pairs times pair i of M rows of x.
  template <uint32_t M, uint32_t C>
  __attribute__((always_inline)) static void add(const uint16_t* const (&pairs)[C], const float* x,
                                                 size_t x_stride, uint32_t i,
                                                 F32x16 (&sums)[M][C]) {
    __m512i w[C];
    BP_UNROLL for (uint32_t c = 0; c < C; ++c) w[c] = _mm512_loadu_si512(pairs[c]);
    add(w, x, x_stride, i, sums);
  }
  template <uint32_t M, uint32_t C>
  __attribute__((always_inline)) static void add(const __m512i (&pairs)[C], const float* x,
                                                 size_t x_stride, uint32_t i,
                                                 F32x16 (&sums)[M][C]) {
    BP_UNROLL for (uint32_t m = 0; m < M; ++m) {
      const __m512 word = _mm512_set1_ps(x[m * x_stride + i]);
      BP_UNROLL for (uint32_t c = 0; c < C; ++c) {
        sums[m][c].v = _mm512_dpbf16_ps(sums[m][c].v, reinterpret_cast<__m512bh>(pairs[c]),
                                        reinterpret_cast<__m512bh>(_mm512_castps_si512(word)));
      }
    }
  }
};

// Rows are rounded floats, each element is multiplied by itself.
struct FloatProducts {
  using Probabilities = StoreRounded;
  static constexpr auto pack_query = round_query;

  template <uint32_t M, uint32_t C>
  __attribute__((always_inline)) static void add(const uint16_t* const (&pairs)[C], const float* x,
                                                 size_t x_stride, uint32_t i,
                                                 F32x16 (&sums)[M][C]) {
    BP_UNROLL for (int element = 1; element >= 0; --element) {
      F32x16 w[C];
      BP_UNROLL for (uint32_t c = 0; c < C; ++c) {
        const Bf16Pairs both = load_bf16_pairs(pairs[c]);
        w[c] = element == 1 ? both.odd : both.even;
      }
      BP_UNROLL for (uint32_t m = 0; m < M; ++m) {
        const F32x16 own = broadcast(x[m * x_stride + 2 * i + element]);
        BP_UNROLL for (uint32_t c = 0; c < C; ++c) sums[m][c] = fma(own, w[c], sums[m][c]);
      }
    }
  }
};

template <Tuning T>
using Products = std::conditional_t<kByFloats<T>, FloatProducts, PairProducts>;

// What is wanted after a tile may be more than the tile holds, or less. So the lines of a tile take
// turns: the nth of n asks for the nth line wanted, the one n behind it and so on.

// Keys, by groups, G of which are read side by side.
template <uint32_t G>
class WantedKeys {
 public:
  WantedKeys(const KvTile& tile, uint32_t group, uint32_t n_pairs)
      : group_bytes_(n_pairs * kLineBytes) {
    const uint32_t n = tile.end - tile.first, n_wanted = tile.wanted_end - tile.wanted_first;
    stride_ = n * group_bytes_;
    BP_UNROLL for (uint32_t g = 0; g < G; ++g) {
      const uint32_t nth = group + g - tile.first;
      n_lines_[g] = nth < n_wanted ? (n_wanted - nth + n - 1) / n : 0;
      first_[g] = reinterpret_cast<const uint8_t*>(key_pairs(tile, group + g, 0)) + tile.ahead +
                  (ptrdiff_t{tile.wanted_first} - tile.first) * group_bytes_;
    }
  }
  // For what is wanted, and for what is soon read: behind a group's end the others' lines are read
  // already.
  template <Tuning T>
  __attribute__((always_inline)) void ask(uint32_t pair, const uint16_t* const (&keys)[G]) const {
    const bool ends = pair * kLineBytes + ptrdiff_t{kNearBytes} >= group_bytes_;
    const ptrdiff_t others = ends ? (G - 1) * group_bytes_ : 0;
    BP_UNROLL for (uint32_t g = 0; g < G; ++g) {
      const uint8_t* line = first_[g] + pair * kLineBytes;
      for (uint32_t i = 0; i < n_lines_[g]; ++i, line += stride_) ask_next<T>(line);
      ask_near<T>(reinterpret_cast<const uint8_t*>(keys[g]) + others);
    }
  }

 private:
  const uint8_t* first_[G];
  uint32_t n_lines_[G];
  ptrdiff_t group_bytes_, stride_;
};

// Values of C times 16 columns, by pairs of positions, n of which are read.
template <uint32_t C>
class WantedValues {
 public:
  WantedValues(const KvTile& tile, uint32_t column, uint32_t n)
      : first_(tile.wanted_first * kGroupPairs), end_(tile.wanted_end * kGroupPairs), n_(n) {
    const ptrdiff_t half_bytes = ptrdiff_t{tile.value_stride} * kValuePairPositions * 2;
    const bool has_low = tile.values[0] != nullptr, has_high = tile.values[2] != nullptr;
    const auto half = [&](uint32_t h) {
      return reinterpret_cast<const uint8_t*>(value_pairs(tile, h * kHalfPairs, column)) +
             (h == 0 ? tile.ahead : tile.second_ahead);
    };
    halves_[0] = has_low ? half(0) : half(1) - half_bytes;
    halves_[1] = has_high ? half(1) : half(0) + half_bytes;
  }
  template <Tuning T>
  __attribute__((always_inline)) void ask(uint32_t nth, const uint16_t* const (&values)[C]) const {
    for (uint32_t pair = first_ + nth; pair < end_; pair += n_) {
      const uint8_t* line = halves_[pair / kHalfPairs] + pair % kHalfPairs * kLineBytes;
      BP_UNROLL for (uint32_t c = 0; c < C; ++c) ask_next<T>(line + c * kColumnsBytes);
    }
    BP_UNROLL for (uint32_t c = 0; c < C; ++c) ask_near<T>(values[c]);
  }

 private:
  static constexpr uint32_t kGroupPairs = kHalfPairs / 2;
  static constexpr ptrdiff_t kColumnsBytes = kHalfElements * sizeof(uint16_t);
  const uint8_t* halves_[2];
  uint32_t first_, end_, n_;
};

// Each score sums in ascending order of pairs of dimensions.
template <class Rows, uint32_t G>
inline void score_groups(const KvTile& tile, uint32_t group, const float* queries,
                         size_t query_stride, uint32_t n_pairs, float* scores) {
  constexpr uint32_t M = Rows::kRows;
  F32x16 sums[M][G];
  BP_UNROLL for (uint32_t m = 0; m < M; ++m) {
    BP_UNROLL for (uint32_t g = 0; g < G; ++g) sums[m][g] = zero();
  }
  const WantedKeys<G> wanted(tile, group, n_pairs);
  for (uint32_t i = 0; i < n_pairs; ++i) {
    const uint16_t* keys[G];
    BP_UNROLL for (uint32_t g = 0; g < G; ++g) {
      keys[g] = key_pairs(tile, group + g, i);
      if constexpr (!Rows::kAlone) {
        Rows::template ask_ahead<kLineBytes>(tile, keys[g]);
      }
    }
    if constexpr (Rows::kAlone) wanted.template ask<Rows::kTuning>(i, keys);
    Products<Rows::kTuning>::add(keys, queries, query_stride, i, sums);
  }
  BP_UNROLL for (uint32_t m = 0; m < M; ++m) {
    BP_UNROLL for (uint32_t g = 0; g < G; ++g) {
      store(scores + m * kTilePositions + (group + g) * 16, sums[m][g]);
    }
  }
}

template <Tuning T>
void score_tile(const KvTile& tile, const float* queries, size_t query_stride, uint32_t n_rows,
                uint32_t head_dim, float* scores) {
  const uint32_t n_pairs = (head_dim + 1) / 2;
  for_rows<T, kRows>(n_rows, [&](uint32_t row, auto rows) {
    using Rows = decltype(rows);
    const float* own = queries + row * query_stride;
    float* to = scores + row * kTilePositions;
    uint32_t group = tile.first;
    constexpr uint32_t kGroups = kVectors<Rows>;
    for (; group + kGroups <= tile.end; group += kGroups) {
      score_groups<Rows, kGroups>(tile, group, own, query_stride, n_pairs, to);
    }
    for (; group < tile.end; ++group) {
      score_groups<Rows, 1>(tile, group, own, query_stride, n_pairs, to);
    }
  });
}

// C vectors of 16 columns, pairs of positions ascending.
template <class Rows, uint32_t C>
inline void accumulate_columns(const KvTile& tile, uint32_t column, const float* probabilities,
                               uint32_t first_pair, uint32_t end_pair, float* out,
                               size_t out_stride) {
  constexpr uint32_t M = Rows::kRows;
  F32x16 sums[M][C];
  BP_UNROLL for (uint32_t m = 0; m < M; ++m) {
    BP_UNROLL for (uint32_t c = 0; c < C; ++c) {
      sums[m][c] = load(out + m * out_stride + column + 16 * c);
    }
  }
  const WantedValues<C> wanted(tile, column, end_pair - first_pair);
  for (uint32_t i = first_pair; i < end_pair; ++i) {
    const uint16_t* values[C];
    const ptrdiff_t ahead = i < kHalfPairs ? tile.ahead : tile.second_ahead;
    BP_UNROLL for (uint32_t c = 0; c < C; ++c) {
      values[c] = value_pairs(tile, i, column + 16 * c);
      if constexpr (!Rows::kAlone) {
        Rows::template ask_ahead<kLineBytes>(ahead, values[c]);
      }
    }
    if constexpr (Rows::kAlone) wanted.template ask<Rows::kTuning>(i - first_pair, values);
    Products<Rows::kTuning>::add(values, probabilities, kTilePositions, i, sums);
  }
  BP_UNROLL for (uint32_t m = 0; m < M; ++m) {
    BP_UNROLL for (uint32_t c = 0; c < C; ++c) {
      store(out + m * out_stride + column + 16 * c, sums[m][c]);
    }
  }
}

template <Tuning T>
void accumulate_tile(const KvTile& tile, const float* probabilities, uint32_t n_rows,
                     uint32_t first, uint32_t end, float* out, size_t out_stride) {
  const uint32_t first_pair = first / 2, end_pair = (end + 1) / 2;
  for_rows<T, kRows>(n_rows, [&](uint32_t row, auto rows) {
    using Rows = decltype(rows);
    const float* own = probabilities + row * kTilePositions;
    float* to = out + row * out_stride;
    constexpr uint32_t kColumns = kVectors<Rows>;
    uint32_t column = 0;
    for (; column + 16 * kColumns <= tile.value_stride; column += 16 * kColumns) {
      accumulate_columns<Rows, kColumns>(tile, column, own, first_pair, end_pair, to, out_stride);
    }
    for (; column < tile.value_stride; column += 16) {
      accumulate_columns<Rows, 1>(tile, column, own, first_pair, end_pair, to, out_stride);
    }
  });
}

// Rows of queries that packed tiles serve, and of which sums fit into registers at once.
constexpr uint32_t kPackedRows = 16, kPackedRowsOnce = 8;

constexpr uint32_t kSides = PackedTile::kSides;

// Adds pairs of both sides of a piece of a packed tile times those of M rows of x from i on. One
// piece after another: memory is read in one stream.
template <class Bases, class Ask, uint32_t M>
__attribute__((always_inline)) inline void add_piece(const PackedPiece& piece, const Bases& bases,
                                                     uint32_t n_pairs, const Ask& ask,
                                                     const float* x, size_t x_stride, uint32_t i,
                                                     F32x16 (&sums)[M][kSides]) {
  if (__builtin_expect(piece.n_apart > 0, 0)) {
    alignas(64) uint16_t made[kSides * PackedTile::kMostDims / 2 * kPairElements];
    unpack_piece(piece, bases, n_pairs, ask, made);
    for (uint32_t p = 0; p < n_pairs; ++p) {
      const uint16_t* const pairs[kSides] = {made + p * kPairElements,
                                             made + (n_pairs + p) * kPairElements};
      PairProducts::add(pairs, x, x_stride, i + p, sums);
    }
    return;
  }
  for_pairs(
      piece, bases, n_pairs,
      ask, [&](uint32_t p, const __m512i(&pairs)[kSides]) __attribute__((always_inline)) {
        PairProducts::add(pairs, x, x_stride, i + p, sums);
      });
}

// The same sums as of the tile unpacked.
template <Tuning T, uint32_t M>
inline void score_packed(const KvTile& tile, const float* queries, size_t query_stride,
                         float* scores) {
  const AskPacked<T> ask(tile);
  ask.header(tile.packed);
  const KeyBases bases(tile.packed);
  for (uint32_t group = tile.first / kSides * kSides; group < tile.end; group += kSides) {
    F32x16 sums[M][kSides];
    for_sums<M, kSides>([&](uint32_t m, uint32_t side) { sums[m][side] = zero(); });
    add_piece(packed_keys(tile.packed, group), BasesOfKeys{bases.of}, tile.packed.n_dims / 2, ask,
              queries, query_stride, 0, sums);
    for_sums<M, kSides>([&](uint32_t m, uint32_t side) {
      store(scores + m * kTilePositions + (group + side) * 16, sums[m][side]);
    });
  }
}

// Half a tile after the other, as it lies: probabilities of positions outside are 0.
template <Tuning T, uint32_t M>
inline void accumulate_packed(const KvTile& tile, const float* probabilities, float* out,
                              size_t out_stride) {
  const AskPacked<T> ask(tile);
  for (uint32_t half = 0; half < 2; ++half) {
    for (uint32_t column = 0; column < tile.packed.n_dims; column += PackedTile::kPieceColumns) {
      F32x16 sums[M][kSides];
      float* const own = out + column;
      for_sums<M, kSides>([&](uint32_t m, uint32_t side) {
        sums[m][side] = load(own + m * out_stride + side * 16);
      });
      add_piece(packed_values(tile.packed, half, column), BasesOfValues(tile.packed, column),
                PackedTile::kValuePairs, ask, probabilities, kTilePositions,
                half * PackedTile::kValuePairs, sums);
      for_sums<M, kSides>([&](uint32_t m, uint32_t side) {
        store(own + m * out_stride + side * 16, sums[m][side]);
      });
    }
  }
}

template <Tuning T>
void score_packed_or_whole(const KvTile& tile, const float* queries, size_t query_stride,
                           uint32_t n_rows, uint32_t head_dim, float* scores) {
  if (tile.packed.first == nullptr) {
    return score_tile<T>(tile, queries, query_stride, n_rows, head_dim, scores);
  }
  for_rows_from<T, Turn::kAlone, kPackedRowsOnce>(0, n_rows, [&](uint32_t row, auto rows) {
    score_packed<T, decltype(rows)::kRows>(tile, queries + row * query_stride, query_stride,
                                           scores + row * kTilePositions);
  });
}

template <Tuning T>
void accumulate_packed_or_whole(const KvTile& tile, const float* probabilities, uint32_t n_rows,
                                uint32_t first, uint32_t end, float* out, size_t out_stride) {
  if (tile.packed.first == nullptr) {
    return accumulate_tile<T>(tile, probabilities, n_rows, first, end, out, out_stride);
  }
  for_rows_from<T, Turn::kAlone, kPackedRowsOnce>(0, n_rows, [&](uint32_t row, auto rows) {
    accumulate_packed<T, decltype(rows)::kRows>(tile, probabilities + row * kTilePositions,
                                                out + row * out_stride, out_stride);
  });
}

template <Tuning T>
void set(Kernels& kernels) {
  constexpr int i = static_cast<int>(KvType::kBF16);
  kernels.pack_query[i] = Products<T>::pack_query;
  kernels.score_tile[i] = score_tile<T>;
  kernels.softmax_tile[i] = softmax_tile<typename Products<T>::Probabilities>;
  kernels.accumulate_tile[i] = accumulate_tile<T>;
  kernels.wanting_rows[i] = T == Tuning::kIntel ? kRows : 0;  // measured
  // Products of floats take longer than memory gives: there tiles stay whole.
  if constexpr (!kByFloats<T>) {
    kernels.score_tile[i] = score_packed_or_whole<T>;
    kernels.accumulate_tile[i] = accumulate_packed_or_whole<T>;
    kernels.packed_rows = kPackedRows;
    set_tile_packing(kernels);
  }
}

}  // namespace

void set_attention_kernels(Kernels& kernels, Tuning tuning) {
  switch (tuning) {
    case Tuning::kZen5:
      return set<Tuning::kZen5>(kernels);
    case Tuning::kIntel:
      return set<Tuning::kIntel>(kernels);
    case Tuning::kZen4:
      return set<Tuning::kZen4>(kernels);
  }
}

}  // namespace bp::cpu::avx512_bf16
