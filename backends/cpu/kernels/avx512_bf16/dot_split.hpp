#pragma once
// Rows of activations times a strip in 12 bits, whose pairs are multiplied where they are made.

#include "backends/cpu/kernels/avx512_bf16/ask_strip.hpp"
#include "backends/cpu/kernels/avx512_bf16/panel_tiles.hpp"
#include "backends/cpu/kernels/avx512_bf16/products.hpp"
#include "backends/cpu/kernels/avx512_bf16/split_strip.hpp"
#include "backends/cpu/kernels/unroll.hpp"
#include "backends/cpu/kernels/with_rows.hpp"

namespace bp::cpu::avx512_bf16 {
namespace {

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

}  // namespace
}  // namespace bp::cpu::avx512_bf16
