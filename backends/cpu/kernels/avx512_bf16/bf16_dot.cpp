// Products of bf16 weights with activations rounded to bf16: a pair of columns of 16 rows of
// weights is a vector, which the same pair of a row of activations multiplies, so that nothing is
// summed across lanes. A row's product has two sums, of even pairs of columns and of odd ones,
// since each waits for its last product. A panel of n rows is
// [columns / kBf16Columns][n][kBf16Columns], of bf16 or of floats as the products take them.

#include <type_traits>

#include "backends/cpu/kernels/simd_avx512.hpp"
// clang-format keeps what defines the lanes first.
#include "backends/cpu/kernels/avx512_bf16/ask_strip.hpp"
#include "backends/cpu/kernels/avx512_bf16/by_floats.hpp"
#include "backends/cpu/kernels/avx512_bf16/split_strip.hpp"
#include "backends/cpu/kernels/kernel_table.hpp"
#include "backends/cpu/kernels/unroll.hpp"
#include "backends/cpu/kernels/with_rows.hpp"

namespace bp::cpu::avx512_bf16 {
namespace {

using namespace avx512;

// So many rows of activations, whole panels of them, are multiplied by two strips before others.
constexpr uint32_t kGroupRows = 48;

// A group goes through two strips block by block of columns, of which the next is asked for, tile
// by tile of rows, whose sums fit into registers. (Measured: long runs, though the first-level
// cache would hold fewer columns.)
constexpr uint32_t kGroupTileRows = 6;
constexpr uint32_t kGroupColumns = 1024;
constexpr int kGroupLevel = 2;  // of the cache that is to hold the next block

static_assert(kGroupColumns % kBf16Columns == 0);

// Of S strips and N rows of activations, P of even and odd pairs of columns.
template <uint32_t S, uint32_t N, uint32_t P>
struct Sums {
  __m512 of[S][N][P];
};

// Pairs of columns are multiplied as they are.
template <Tuning T>
struct PairProducts {
  using X = uint16_t;  // an activation, and a weight of pairs that are made and kept
  static constexpr uint32_t kPanelRows = T == Tuning::kZen5 ? kGroupRows : 16;
  // So many rows that go through one strip have both sums in registers. (Measured.)
  static constexpr uint32_t kRowsOnce = T == Tuning::kZen5 ? 12 : 8;
  // Rows that go through one strip, whose pairs are made anew for each such tile and never stored.
  static constexpr uint32_t kTileRowsAtOnce = kRowsOnce;

  static void store(X* to, F32x16 x) { store_bf16(to, x); }
  static void store_pair(X* to, __m512i pair) { _mm512_store_si512(to, pair); }
  // Of a pair made before, element 0 <= at < kPairElements: row by row.
  static void store_weight(X* pair, uint32_t at, uint16_t weight) { pair[at] = weight; }

  struct Weights {
    __m512bh pair;
  };
  static Weights weights(__m512i pair) { return {reinterpret_cast<__m512bh>(pair)}; }
  static Weights load(const X* p) { return weights(_mm512_loadu_si512(p)); }

  // Adds pair i of kBf16Columns columns of S strips times that of N rows to sums p.
  template <uint32_t S, uint32_t N, uint32_t P>
  __attribute__((always_inline)) static void add(const Weights (&ws)[S], const X* x, uint32_t i,
                                                 uint32_t p, Sums<S, N, P>& sums) {
    BP_UNROLL for (uint32_t t = 0; t < N; ++t, x += kBf16Columns) {
      if constexpr (S == 1) {
        __m512& sum = sums.of[0][t][p];
        sum = t < shuffled_rows(N) ? _mm512_dpbf16_ps(sum, ws[0].pair, shuffled_pair(x, i))
                                   : add_product(sum, ws[0].pair, x + 2 * i);
      } else {
        const __m512bh pair = broadcast_pair(x + 2 * i);
        BP_UNROLL for (uint32_t s = 0; s < S; ++s) {
          __m512& sum = sums.of[s][t][p];
          sum = _mm512_dpbf16_ps(sum, ws[s].pair, pair);
        }
      }
    }
  }

 private:
  // With one strip each product loads its pair of activations, and as many loads a cycle as
  // products leave none for weights. Pairs of so many rows are loaded by fours and shuffled.
  // (Measured.)
  static constexpr uint32_t shuffled_rows(uint32_t n_rows) {
    if (T != Tuning::kZen5 || n_rows < 6) return 0;
    return n_rows == 6 ? 1 : 2;
  }

  // Pair i of kBf16Columns columns; the compiler loads each four once.
  static __m512bh shuffled_pair(const X* x, uint32_t i) {
    const auto* four = reinterpret_cast<const __m128i*>(x + i / 4 * 8);
    const __m512i all = _mm512_broadcast_i32x4(_mm_loadu_si128(four));
    const __m512i one = i % 4 == 0   ? _mm512_shuffle_epi32(all, _MM_PERM_AAAA)
                        : i % 4 == 1 ? _mm512_shuffle_epi32(all, _MM_PERM_BBBB)
                        : i % 4 == 2 ? _mm512_shuffle_epi32(all, _MM_PERM_CCCC)
                                     : _mm512_shuffle_epi32(all, _MM_PERM_DDDD);
    return reinterpret_cast<__m512bh>(one);
  }
  static __m512bh broadcast_pair(const X* p) {
    int32_t pair;
    __builtin_memcpy(&pair, p, sizeof pair);
    return reinterpret_cast<__m512bh>(_mm512_set1_epi32(pair));
  }
  // sum + w * the pair of columns at x, which the product itself reads: gcc 12 reads it by an
  // instruction of its own, which costs a quarter of the time in one of Zen 4's states.
  __attribute__((always_inline)) static __m512 add_product(__m512 sum, __m512bh w, const X* x) {
    using Pair [[gnu::may_alias]] = int32_t;
    asm("vdpbf16ps %2%{1to16%}, %1, %0"
        : "+v"(sum)
        : "v"(w), "m"(*reinterpret_cast<const Pair*>(x)));
    return sum;
  }
};

// As floats, each column by itself.
struct FloatProducts {
  using X = float;
  static constexpr uint32_t kPanelRows = 16, kRowsOnce = 8, kTileRowsAtOnce = kPanelRows;

  static void store(X* to, F32x16 x) {
    uint16_t narrow[16];
    store_bf16(narrow, x);
    avx512::store(to, load_bf16(narrow));
  }
  static void store_pair(X* to, __m512i pair) {
    const Weights w = weights(pair);
    _mm512_store_ps(to, w.even.v);
    _mm512_store_ps(to + kStripRows, w.odd.v);
  }
  static void store_weight(X* pair, uint32_t at, uint16_t weight) {
    const uint32_t bits = uint32_t{weight} << 16;
    __builtin_memcpy(pair + at % 2 * kStripRows + at / 2, &bits, sizeof bits);
  }

  using Weights = Bf16Pairs;
  static Weights weights(__m512i pair) { return widen_bf16_pairs(pair); }
  static Weights load(const X* p) { return {avx512::load(p), avx512::load(p + kStripRows)}; }

  template <uint32_t S, uint32_t N, uint32_t P>
  __attribute__((always_inline)) static void add(const Weights (&ws)[S], const X* x, uint32_t i,
                                                 uint32_t p, Sums<S, N, P>& sums) {
    BP_UNROLL for (int column = 1; column >= 0; --column) {
      BP_UNROLL for (uint32_t t = 0; t < N; ++t) {
        const __m512 own = _mm512_set1_ps(x[t * kBf16Columns + 2 * i + column]);
        BP_UNROLL for (uint32_t s = 0; s < S; ++s) {
          __m512& sum = sums.of[s][t][p];
          sum = _mm512_fmadd_ps(column == 1 ? ws[s].odd.v : ws[s].even.v, own, sum);
        }
      }
    }
  }
};

template <Tuning T>
using Arithmetic = std::conditional_t<kByFloats<T>, FloatProducts, PairProducts<T>>;

template <class A>
void pack(const float* x, uint32_t n_columns, void* panel, uint32_t n, uint32_t t) {
  auto* to = static_cast<typename A::X*>(panel) + t * kBf16Columns;
  for (uint32_t c = 0; c < n_columns; c += kBf16Columns, to += size_t{n} * kBf16Columns) {
    A::store(to, load(x + c));
    A::store(to + 16, load(x + c + 16));
  }
}

// Rows of one panel.
template <class X>
struct PanelRows {
  const X* first;
  uint32_t n_panel;  // rows of the panel
};

// Addresses of rows then lie a constant behind p; else gcc keeps each of them, in memory.
template <class X>
inline void keep_as_base(const X*& p) {
  asm("" : "+r"(p));
}

// What products do beside while they go through kBf16Columns columns once: ask(), then a step with
// each two pairs, then end().
struct Nothing {
  struct Steps {
    void step(uint32_t) {}
  };
  [[nodiscard]] Steps steps() const { return {}; }
  void ask() {}
  void end() {}
};
// Asks for so many lines of each of S strips.
template <uint32_t S, int Level = kGroupLevel>
struct Lines : Nothing {
  const uint16_t* from[S];
  uint32_t n;
  __attribute__((always_inline)) void ask() {
    for (uint32_t i = 0; i < n; ++i) {
      BP_UNROLL for (uint32_t s = 0; s < S; ++s) {
        __builtin_prefetch(from[s], 0, 4 - Level);
        from[s] += kPairElements;
      }
    }
  }
};
// Likewise, and makes the pairs of the strips' next columns, which stores do beside products.
template <class A, uint32_t S>
struct LinesAndPairs : Lines<S> {
  SplitStrip* strips;    // [S]
  typename A::X* to[S];  // all pairs
  size_t at;             // of the next
  uint32_t n_to_make;    // times kBf16Columns columns
  struct Steps {
    const uint8_t* block[S];
    __m512i upper_bytes[S];
    typename A::X* pairs[S];
    bool is_any;
    __attribute__((always_inline)) void step(uint32_t i) {
      if (!is_any) return;
      BP_UNROLL for (uint32_t s = 0; s < S; ++s) {
        SplitStrip::make<A>(block[s], i, upper_bytes[s], pairs[s]);
      }
    }
  };
  __attribute__((always_inline)) Steps steps() const {
    Steps all;
    all.is_any = n_to_make > 0;
    BP_UNROLL for (uint32_t s = 0; s < S; ++s) {
      all.block[s] = strips[s].next_block();
      all.upper_bytes[s] = strips[s].upper_bytes();
      all.pairs[s] = to[s] + at;
    }
    return all;
  }
  __attribute__((always_inline)) void end() {
    if (n_to_make == 0) return;
    --n_to_make;
    BP_UNROLL for (uint32_t s = 0; s < S; ++s) strips[s].template end_block<A>(to[s] + at);
    at += kUnitElements;
  }
};

// Adds pair i of kBf16Columns columns of one strip times that of N rows, x from there.
template <class A, uint32_t N, uint32_t P>
__attribute__((always_inline)) inline void add_pair_at(uint32_t i, __m512i w,
                                                       const typename A::X* x,
                                                       Sums<1, N, P>& sums) {
  const typename A::Weights ws[1] = {A::weights(w)};
  A::add(ws, x, i, i % P, sums);
}

// w: pairs of strips from some column on, x: rows from there, for n_columns columns.
template <class A, uint32_t S, uint32_t N, class Beside, class X>
__attribute__((always_inline)) inline void add_columns(const X* const (&w)[S], PanelRows<X> x,
                                                       uint32_t n_columns, Beside& beside,
                                                       Sums<S, N, 2>& sums) {
  const X* own = x.first;
  size_t at = 0;
  for (uint32_t c = 0; c < n_columns; c += kBf16Columns, own += size_t{x.n_panel} * kBf16Columns) {
    if constexpr (S == 1) keep_as_base(own);
    beside.ask();
    auto steps = beside.steps();
    BP_UNROLL for (uint32_t i = 0; i < kUnitPairs; i += 2, at += 2 * kPairElements) {
      BP_UNROLL for (uint32_t p = 0; p < 2; ++p) {
        typename A::Weights ws[S];
        BP_UNROLL for (uint32_t s = 0; s < S; ++s) ws[s] = A::load(w[s] + at + p * kPairElements);
        A::add(ws, own, i + p, p, sums);
      }
      steps.step(i / 2);
    }
    beside.end();
  }
}

// Of the rows of S strips: powers of two.
template <uint32_t S>
struct Scales {
  __m512 of[S];
};

template <uint32_t S, uint32_t N, uint32_t P>
inline void clear(Sums<S, N, P>& sums) {
  BP_UNROLL for (uint32_t s = 0; s < S; ++s) {
    BP_UNROLL for (uint32_t t = 0; t < N; ++t) {
      BP_UNROLL for (uint32_t p = 0; p < P; ++p) sums.of[s][t][p] = _mm512_setzero_ps();
    }
  }
}

// Sums of even pairs [S][N] and of odd ones; the former where P = 1 have left the registers.
template <uint32_t S, uint32_t N, uint32_t P>
inline void store(const Sums<S, N, P>& sums, const __m512* even, const Scales<S>& scales, float* y,
                  size_t y_stride) {
  BP_UNROLL for (uint32_t t = 0; t < N; ++t) {
    BP_UNROLL for (uint32_t s = 0; s < S; ++s) {
      const __m512 sum =
          _mm512_add_ps(P == 2 ? sums.of[s][t][0] : even[s * N + t], sums.of[s][t][P - 1]);
      _mm512_storeu_ps(y + t * y_stride + s * kStripRows, _mm512_mul_ps(sum, scales.of[s]));
    }
  }
}

// Adds pairs of a strip's next columns times N rows: all, or (P = 1) even or odd ones.
template <class A, uint32_t Parity, class Ask, uint32_t N, uint32_t P>
__attribute__((always_inline)) inline void add_split(SplitStrip& blocks, PanelRows<typename A::X> x,
                                                     uint32_t n_columns, Ask ask,
                                                     Sums<1, N, P>& sums) {
  const auto add_block = [&](auto complete) __attribute__((always_inline)) {
    BP_UNROLL for (uint32_t i = 0; i < kUnitPairs; i += 2) {
      ask.two_pairs(blocks.next_block(), i / 2);
      const SplitStrip::TwoPairs two =
          SplitStrip::two_pairs(blocks.next_block(), i / 2, blocks.upper_bytes());
      BP_UNROLL for (uint32_t p = 0; p < 2; ++p) {
        const __m512i pair = complete(two.of[p], i + p);
        if (P == 2 || p == Parity) add_pair_at<A>(i + p, pair, x.first, sums);
      }
    }
  };
  for (uint32_t c = 0; c < n_columns; c += kBf16Columns) {
    keep_as_base(x.first);
    ask.block(blocks.next_block());
    if (__builtin_expect(blocks.has_exceptions(), 0)) {
      add_block([&](__m512i pair, uint32_t i)
                    __attribute__((always_inline)) { return blocks.complete(pair, i); });
      blocks.skip_exceptions();
    } else {
      add_block([](__m512i pair, uint32_t) { return pair; });
    }
    blocks.skip_block();
    x.first += size_t{x.n_panel} * kBf16Columns;
  }
}

// A strip, read once from its begin to its end, times N rows.
template <class A, uint32_t N, class Ask>
__attribute__((noinline)) void dot_split(const uint16_t* strip, PanelRows<typename A::X> x,
                                         uint32_t n_columns, Ask ask, float* y, size_t y_stride) {
  Sums<1, N, 2> sums;
  clear(sums);
  SplitStrip blocks(strip, n_columns);
  add_split<A, 0>(blocks, x, n_columns, ask, sums);
  store(sums, nullptr, Scales<1>{SplitStrip::scales(strip)}, y, y_stride);
}

struct BlockPlace {
  uint32_t n_columns;
  bool is_first, is_last;
};
// Of `most` columns, or what is left of n_columns from `column` on.
inline BlockPlace block_place(uint32_t column, uint32_t n_columns, uint32_t most) {
  const uint32_t left = n_columns - column;
  return {left < most ? left : most, column == 0, left <= most};
}

// Rows [first, first + n_rows), one of some tiles of a panel.
struct Tile {
  uint32_t first, n_rows, nth, n_tiles;
};
// Calls f(tile, panel from its first row on) for tiles of about one size, of Most rows at most, of
// n_x_rows in panels, from some column on.
template <class A, uint32_t Most, class X = typename A::X, class F>
__attribute__((always_inline)) inline void for_tiles(const X* panels, uint32_t n_x_rows,
                                                     uint32_t n_columns, uint32_t column, F&& f) {
  for (uint32_t first = 0; first < n_x_rows; first += A::kPanelRows) {
    const uint32_t after = n_x_rows - first;
    const uint32_t n_panel = after < A::kPanelRows ? after : A::kPanelRows;
    const X* panel = panels + size_t{first} * n_columns + size_t{column} * n_panel;
    const uint32_t n_tiles = (n_panel + Most - 1) / Most;
    for (uint32_t row = 0, nth = 0; nth < n_tiles; ++nth) {
      const uint32_t n_rows = (n_panel - row + n_tiles - nth - 1) / (n_tiles - nth);
      f(Tile{first + row, n_rows, nth, n_tiles}, PanelRows<X>{panel + row * kBf16Columns, n_panel});
      row += n_rows;
    }
  }
}

// Of the even or the odd pairs of the next columns.
template <class A, uint32_t Parity, uint32_t N>
__attribute__((always_inline)) inline void add_split_in_turn(SplitStrip& blocks,
                                                             PanelRows<typename A::X> x,
                                                             const BlockPlace& place,
                                                             Sums<1, N, 1>& waiting) {
  Sums<1, N, 1> sums;
  clear(sums);
  if (!place.is_first) {
    BP_UNROLL for (uint32_t t = 0; t < N; ++t) sums.of[0][t][0] = waiting.of[0][t][0];
  }
  add_split<A, Parity>(blocks, x, place.n_columns, AskInTurn<Parity>(), sums);
  BP_UNROLL for (uint32_t t = 0; t < N; ++t) waiting.of[0][t][0] = sums.of[0][t][0];
}

// A strip times more rows than both sums of which fit into registers: some columns are read twice.
template <class A, uint32_t N>
__attribute__((noinline)) void dot_split_twice(const uint16_t* strip, PanelRows<typename A::X> x,
                                               uint32_t n_columns, float* y, size_t y_stride) {
  Sums<1, N, 1> even, odd;
  SplitStrip blocks(strip, n_columns);
  for (uint32_t column = 0; column < n_columns; column += kColumnsTwice) {
    const BlockPlace place = block_place(column, n_columns, kColumnsTwice);
    SplitStrip first_time = blocks;
    add_split_in_turn<A, 0>(first_time, x, place, even);
    add_split_in_turn<A, 1>(blocks, x, place, odd);
    x.first += size_t{x.n_panel} * kColumnsTwice;
  }
  store(odd, &even.of[0][0][0], Scales<1>{SplitStrip::scales(strip)}, y, y_stride);
}

constexpr uint32_t kNearRows = 6;  // so few rows ask as the fewest do

// More than kStreamedRows rows times a strip, for which the first tile waits.
template <class A>
void dot_split_rows(const uint16_t* strip, const typename A::X* panels, uint32_t n_x_rows,
                    uint32_t n_columns, float* y, size_t y_stride) {
  using Near = AskAhead<kStreamedRows, Tuning::kZen4>;
  using Far = AskAhead<A::kRowsOnce, Tuning::kZen4>;
  for_tiles<A, A::kTileRowsAtOnce>(panels, n_x_rows, n_columns, 0, [&](const Tile& tile, auto x) {
    with_rows<A::kTileRowsAtOnce>(tile.n_rows, [&](auto rows) {
      constexpr uint32_t N = decltype(rows)::kRows;
      float* const own = y + tile.first * y_stride;
      if constexpr (N > A::kRowsOnce) {
        dot_split_twice<A, N>(strip, x, n_columns, own, y_stride);
      } else {
        const auto multiply = [&](auto ask) {
          dot_split<A, N>(strip, x, n_columns, ask, own, y_stride);
        };
        if constexpr (N >= kStreamedRows) {  // fewer are never first
          if (tile.first == 0) return n_x_rows <= kNearRows ? multiply(Near()) : multiply(Far());
        }
        multiply(AskNothing());
      }
    });
  });
}

// Likewise, but the tiles of the first panel share what is asked for.
template <class A>
void dot_split_panels(const uint16_t* strip, const typename A::X* panels, uint32_t n_x_rows,
                      uint32_t n_columns, float* y, size_t y_stride) {
  constexpr uint32_t kMost = A::kTileRowsAtOnce;
  for_tiles<A, kMost>(panels, n_x_rows, n_columns, 0, [&](const Tile& tile, auto x) {
    with_rows<kMost>(tile.n_rows, [&](auto rows) {
      constexpr uint32_t N = decltype(rows)::kRows;
      const auto multiply = [&](auto ask) {
        dot_split<A, N>(strip, x, n_columns, ask, y + tile.first * y_stride, y_stride);
      };
      if constexpr (N > kStreamedRows) {  // fewer are never all there are
        using Ahead = AskAhead<(N <= kNearRows ? kStreamedRows : kMost), Tuning::kZen5>;
        if (n_x_rows == N) return multiply(Ahead());
      }
      multiply(tile.first < A::kPanelRows ? AskShare(strip, n_columns, tile.nth, tile.n_tiles)
                                          : AskShare(strip));
    });
  });
}

// N rows of activations times a block of columns. Sums begin with the first block, wait from one to
// the next and are stored after the last one.
template <class A, uint32_t S, uint32_t N, class Beside>
__attribute__((noinline)) void dot_block(const typename A::X* const (&w)[S],
                                         PanelRows<typename A::X> x, BlockPlace place,
                                         const Scales<S>& scales, Beside& beside, __m512* waiting,
                                         float* y, size_t y_stride) {
  constexpr uint32_t n_sums = S * N * 2;
  Sums<S, N, 2> sums;
  if (place.is_first) {
    clear(sums);
  } else {
    BP_UNROLL for (uint32_t i = 0; i < n_sums; ++i) {
      sums.of[i / N % S][i % N][i / N / S] = waiting[i];
    }
  }
  add_columns<A>(w, x, place.n_columns, beside, sums);
  if (place.is_last) return store(sums, nullptr, scales, y, y_stride);
  BP_UNROLL for (uint32_t i = 0; i < n_sums; ++i) {
    waiting[i] = sums.of[i / N % S][i % N][i / N / S];
  }
}

// 16 vectors of 16 pairs, rows by columns, the other way round.
inline void transpose(__m512i (&v)[16]) {
  __m512i a[16];
  BP_UNROLL for (int i = 0; i < 16; i += 4) {
    const __m512i low0 = _mm512_unpacklo_epi32(v[i], v[i + 1]);
    const __m512i high0 = _mm512_unpackhi_epi32(v[i], v[i + 1]);
    const __m512i low1 = _mm512_unpacklo_epi32(v[i + 2], v[i + 3]);
    const __m512i high1 = _mm512_unpackhi_epi32(v[i + 2], v[i + 3]);
    a[i] = _mm512_unpacklo_epi64(low0, low1);
    a[i + 1] = _mm512_unpackhi_epi64(low0, low1);
    a[i + 2] = _mm512_unpacklo_epi64(high0, high1);
    a[i + 3] = _mm512_unpackhi_epi64(high0, high1);
  }
  // a[4 * i + j]: of rows 4 * i to 4 * i + 3 pairs j, 4 + j, 8 + j and 12 + j.
  BP_UNROLL for (int j = 0; j < 4; ++j) {
    const __m512i low0 = _mm512_shuffle_i32x4(a[j], a[4 + j], 0x88);
    const __m512i low1 = _mm512_shuffle_i32x4(a[8 + j], a[12 + j], 0x88);
    const __m512i high0 = _mm512_shuffle_i32x4(a[j], a[4 + j], 0xdd);
    const __m512i high1 = _mm512_shuffle_i32x4(a[8 + j], a[12 + j], 0xdd);
    v[j] = _mm512_shuffle_i32x4(low0, low1, 0x88);
    v[8 + j] = _mm512_shuffle_i32x4(low0, low1, 0xdd);
    v[4 + j] = _mm512_shuffle_i32x4(high0, high1, 0x88);
    v[12 + j] = _mm512_shuffle_i32x4(high0, high1, 0xdd);
  }
}

// Rows of a file. Beyond the n_rows that there are they are copies of the last one.
struct FileRows {
  const uint16_t* first;
  size_t row_stride;
  uint32_t n_rows;

  // Pairs of the next kBf16Columns columns.
  __attribute__((always_inline)) void next(__m512i (&pairs)[16]) {
    BP_UNROLL for (uint32_t r = 0; r < 16; ++r) {
      pairs[r] = _mm512_loadu_si512(first + (r < n_rows ? r : n_rows - 1) * row_stride);
    }
    transpose(pairs);
    first += kBf16Columns;
  }
};

template <class A>
void pair_rows(FileRows rows, uint32_t n_columns, typename A::X* pairs) {
  for (uint32_t c = 0; c < n_columns; c += kBf16Columns) {
    __m512i v[16];
    rows.next(v);
    BP_UNROLL for (uint32_t i = 0; i < 16; ++i, pairs += kPairElements) {
      A::store_pair(pairs, v[i]);
    }
  }
}

// A strip of rows of a file times N rows. `ahead`: what follows, which is asked for in the order in
// which it lies.
template <class A, uint32_t N>
void dot_file_rows(FileRows w, const uint16_t* ahead, PanelRows<typename A::X> x,
                   uint32_t n_columns, float* y, size_t y_stride) {
  Sums<1, N, 2> sums;
  clear(sums);
  Lines<1, 2> lines{{}, {ahead}, kUnitPairs};
  const typename A::X* own = x.first;
  for (uint32_t c = 0; c < n_columns; c += kBf16Columns, own += size_t{x.n_panel} * kBf16Columns) {
    keep_as_base(own);
    lines.ask();
    __m512i v[16];
    w.next(v);
    BP_UNROLL for (uint32_t i = 0; i < kUnitPairs; ++i) {
      add_pair_at<A>(i, v[i], own, sums);
    }
  }
  store(sums, nullptr, Scales<1>{_mm512_set1_ps(1)}, y, y_stride);
}

// Pairs of S strips, block by block of columns. Those of a file's rows are made anew for each group
// of activations, those of split strips by the first group, always kBf16Columns columns ahead of
// those that it multiplies. It waits for memory, so it asks for what follows.
template <class A, uint32_t S>
class GroupPairs {
  using X = typename A::X;

 public:
  // kept: room for the pairs of split strips, all columns.
  GroupPairs(const Bf16Weights& w, uint32_t n_w_rows, uint32_t n_columns, X* kept, bool is_first)
      : w_(w),
        n_w_rows_(n_w_rows),
        n_columns_(n_columns),
        is_split_(w.layout == Bf16Layout::kSplit),
        is_first_(is_first),
        strips_{strip_of(w, 0), strip_of(w, S - 1)} {
    beside.strips = strips_;
    beside.at = kUnitElements;
    BP_UNROLL for (uint32_t s = 0; s < S; ++s) {
      beside.to[s] = kept + size_t{s} * n_columns * kStripRows;
      scales.of[s] = is_split_ ? SplitStrip::scales(w.strip(s)) : _mm512_set1_ps(1);
      if (is_split_ && is_first) strips_[s].template make_block<A>(beside.to[s]);
    }
  }
  GroupPairs(const GroupPairs&) = delete;
  GroupPairs& operator=(const GroupPairs&) = delete;

  // Rows in a file may end before what the head of a split strip would have.
  [[nodiscard]] SplitStrip strip_of(const Bf16Weights& w, uint32_t s) const {
    return is_split_ ? SplitStrip(w.strip(s), n_columns_) : SplitStrip();
  }

  // Columns [column, column + place.n_columns).
  void begin_block(uint32_t column, BlockPlace place, const X* (&pairs)[S]) {
    if (is_split_) {
      const uint32_t n_blocks = place.n_columns / kBf16Columns;
      beside.n_to_make = is_first_ ? n_blocks - (place.is_last ? 1 : 0) : 0;
      if (is_first_ && place.is_last) ask_for_first_blocks();
    }
    BP_UNROLL for (uint32_t s = 0; s < S; ++s) {
      beside.from[s] = source(S + s, column);
      pairs[s] = is_split_ ? beside.to[s] + size_t{column} * kStripRows : made_[s];
      if (is_split_) continue;
      pair_rows<A>({w_.strip(s) + column, w_.row_stride, n_w_rows_ - s * kStripRows},
                   place.n_columns, made_[s]);
    }
  }
  // For n of a block's n_all rows of activations.
  void share_lines(uint32_t n, uint32_t n_all) {
    const uint32_t n_lines = is_split_ ? Bf16Split::kBlockBytes / 64 : kUnitPairs;
    beside.n = (n_lines * n + n_all - 1) / n_all;
  }

  LinesAndPairs<A, S> beside{};
  Scales<S> scales;

 private:
  [[nodiscard]] const uint16_t* source(uint32_t strip, uint32_t column) const {
    return is_split_ ? SplitStrip::block(w_.strip(strip), n_columns_, column)
                     : w_.strip(strip) + column * kStripRows;
  }
  // Of the strips that follow: they are made at once. (gcc drops calls that only ask.)
  __attribute__((always_inline)) void ask_for_first_blocks() const {
    for (uint32_t s = S; s < 2 * S; ++s) {
      Lines<2, 1> lines{{}, {w_.strip(s), source(s, 0)}, 2};
      lines.ask();
      Lines<1, 1> rest{{}, {lines.from[1]}, Bf16Split::kBlockBytes / 64 - lines.n};
      rest.ask();
    }
  }

  const Bf16Weights& w_;
  const uint32_t n_w_rows_, n_columns_;
  const bool is_split_, is_first_;
  SplitStrip strips_[2];
  alignas(64) X made_[S][size_t{kGroupColumns} * kStripRows];
};

// Up to kGroupRows rows of activations, in panels, times S strips, block by block of columns.
template <class A, uint32_t S, class X = typename A::X>
void dot_group(const Bf16Weights& w, uint32_t n_w_rows, X* kept, const X* panels, uint32_t n_x_rows,
               uint32_t n_columns, bool is_first, float* y, size_t y_stride) {
  __m512 waiting[kGroupRows * S * 2];
  GroupPairs<A, S> group(w, n_w_rows, n_columns, kept, is_first);
  Lines<S>& lines = group.beside;
  for (uint32_t column = 0; column < n_columns; column += kGroupColumns) {
    const BlockPlace place = block_place(column, n_columns, kGroupColumns);
    const X* pairs[S];
    group.begin_block(column, place, pairs);
    for_tiles<A, kGroupTileRows>(
        panels, n_x_rows, n_columns, column, [&](const Tile& tile, auto x) {
          group.share_lines(tile.n_rows, n_x_rows);
          with_rows<kGroupTileRows>(tile.n_rows, [&](auto rows) {
            constexpr uint32_t N = decltype(rows)::kRows;
            const auto multiply = [&](auto& beside) {
              dot_block<A, S, N>(pairs, x, place, group.scales, beside,
                                 waiting + tile.first * S * 2, y + tile.first * y_stride, y_stride);
            };
            Nothing nothing;
            if (group.beside.n_to_make > 0) return multiply(group.beside);
            is_first ? multiply(lines) : multiply(nothing);
          });
        });
  }
}

template <class A, uint32_t S, class X = typename A::X>
void dot_groups(const Bf16Weights& w, uint32_t n_w_rows, const X* panels, uint32_t n_x_rows,
                uint32_t n_columns, float* y, size_t y_stride, X* kept) {
  static_assert(kGroupRows % A::kPanelRows == 0);
  for (uint32_t t = 0; t < n_x_rows; t += kGroupRows) {
    const uint32_t n = n_x_rows - t < kGroupRows ? n_x_rows - t : kGroupRows;
    dot_group<A, S>(w, n_w_rows, kept, panels + size_t{t} * n_columns, n, n_columns, t == 0,
                    y + t * y_stride, y_stride);
  }
}

// One strip, n_rows rows of which there are: memory is read in one stream.
template <Tuning T, class A>
void dot_few_rows(const Bf16Weights& w, uint32_t strip, uint32_t n_rows, PanelRows<typename A::X> x,
                  uint32_t n_columns, float* y, size_t y_stride) {
  with_rows<kStreamedRows>(x.n_panel, [&](auto rows) {
    constexpr uint32_t N = decltype(rows)::kRows;
    if (w.layout == Bf16Layout::kSplit) {
      return dot_split<A, N>(w.strip(strip), x, n_columns, AskAhead<N, T>(), y, y_stride);
    }
    dot_file_rows<A, N>({w.strip(strip), w.row_stride, n_rows}, w.strip(strip + 1), x, n_columns, y,
                        y_stride);
  });
}

template <Tuning T>
void dot(const Bf16Weights& w, uint32_t n_w_rows, const void* panels, uint32_t n_x_rows,
         uint32_t n_columns, float* y, size_t y_stride, void* scratch) {
  using A = Arithmetic<T>;
  const auto* const x = static_cast<const typename A::X*>(panels);
  auto* const kept = static_cast<typename A::X*>(scratch);
  // Zen's processors make pairs beside products, Intel's beside few products alone.
  constexpr uint32_t kMostAtOnce = T == Tuning::kIntel ? 24 : UINT32_MAX;
  if (n_x_rows <= kStreamedRows) {
    for (uint32_t i = 0; i * kStripRows < n_w_rows; ++i) {
      dot_few_rows<T, A>(w, i, n_w_rows - i * kStripRows, {x, n_x_rows}, n_columns,
                         y + i * kStripRows, y_stride);
    }
  } else if (n_x_rows <= kMostAtOnce && w.layout == Bf16Layout::kSplit) {
    constexpr auto dot_rows = T == Tuning::kZen5 ? dot_split_panels<A> : dot_split_rows<A>;
    for (uint32_t i = 0; i * kStripRows < n_w_rows; ++i) {
      dot_rows(w.strip(i), x, n_x_rows, n_columns, y + i * kStripRows, y_stride);
    }
  } else if (n_w_rows > kStripRows) {
    dot_groups<A, 2>(w, n_w_rows, x, n_x_rows, n_columns, y, y_stride, kept);
  } else {
    dot_groups<A, 1>(w, n_w_rows, x, n_x_rows, n_columns, y, y_stride, kept);
  }
}

template <Tuning T>
void set(Kernels& kernels) {
  kernels.bf16_pack = pack<Arithmetic<T>>;
  kernels.bf16_dot = dot<T>;
  kernels.bf16_bytes = sizeof(typename Arithmetic<T>::X);
  kernels.bf16_panel_rows = Arithmetic<T>::kPanelRows;
}

}  // namespace

void set_bf16_kernels(Kernels& kernels, Tuning tuning) {
  switch (tuning) {
    case Tuning::kZen5:
      set<Tuning::kZen5>(kernels);
      break;
    case Tuning::kIntel:
      set<Tuning::kIntel>(kernels);
      break;
    case Tuning::kZen4:
      set<Tuning::kZen4>(kernels);
      break;
  }
  kernels.bf16_layout = Bf16Layout::kSplit;
}

}  // namespace bp::cpu::avx512_bf16
