#pragma once
// Tiles of rows of activations and blocks of columns, in the order in which they are multiplied.

#include "backends/cpu/kernels/bf16_weights.hpp"

namespace bp::cpu::avx512_bf16 {
namespace {

// So many rows of activations, whole panels of them, are multiplied by two strips before others.
constexpr uint32_t kGroupRows = 48;

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

}  // namespace
}  // namespace bp::cpu::avx512_bf16
