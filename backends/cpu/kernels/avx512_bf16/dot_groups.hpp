#pragma once
// Many rows of activations times strips of weights, whose pairs are made once and kept.

#include "backends/cpu/kernels/avx512_bf16/beside.hpp"
#include "backends/cpu/kernels/avx512_bf16/file_rows.hpp"
#include "backends/cpu/kernels/avx512_bf16/panel_tiles.hpp"
#include "backends/cpu/kernels/avx512_bf16/products.hpp"
#include "backends/cpu/kernels/avx512_bf16/split_strip.hpp"
#include "backends/cpu/kernels/unroll.hpp"
#include "backends/cpu/kernels/with_rows.hpp"

namespace bp::cpu::avx512_bf16 {
namespace {

// A group goes through two strips block by block of columns, of which the next is asked for, tile
// by tile of rows, whose sums fit into registers. (Measured: long runs, though the first-level
// cache would hold fewer columns.)
constexpr uint32_t kGroupTileRows = 6;
constexpr uint32_t kGroupColumns = 1024;
constexpr int kGroupLevel = 2;  // of the cache that is to hold the next block

static_assert(kGroupColumns % kBf16Columns == 0);

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

  LinesAndPairs<A, S, kGroupLevel> beside{};
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
  Lines<S, kGroupLevel>& lines = group.beside;
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

}  // namespace
}  // namespace bp::cpu::avx512_bf16
