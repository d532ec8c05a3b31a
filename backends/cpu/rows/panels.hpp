#pragma once
// How rows of activations are cut into panels; see kernels/kernel_table.hpp for a panel's content.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>

#include "backends/cpu/kernels/activation_panel.hpp"

namespace bp::cpu {

// Width of the panel that begins where n_rows are left.
[[nodiscard]] inline uint32_t panel_width(uint32_t n_rows, uint32_t max_panel_rows) {
  const uint32_t most = std::min(n_rows, max_panel_rows);
  return *std::find_if(std::begin(kPanelWidths), std::end(kPanelWidths),
                       [=](uint32_t width) { return width <= most; });
}

// Second records that a panel of n rows has room for: of n_columns values fewer than one in
// kOutlierRatio^2 can be outliers.
[[nodiscard]] constexpr uint32_t max_seconds(uint32_t n, uint32_t n_columns) {
  constexpr uint32_t most = kOutlierRatio * kOutlierRatio;
  return std::min(n * ((n_columns + most - 1) / most), n_columns / kPanelColumns);
}

// A multiple of 16, so that panels side by side are aligned.
[[nodiscard]] inline size_t panel_words(uint32_t n, uint32_t n_columns) {
  const uint32_t n_blocks = n_columns / kPanelColumns;
  const size_t n_records = size_t{n_blocks} + max_seconds(n, n_columns);
  return panel_records_word(n_blocks, n) + (n_records * kPanelWords * n + 15) / 16 * 16;
}

// One panel of several, and where it begins.
struct PanelPlace {
  uint32_t first;  // row
  uint32_t n;      // rows
  size_t word;
};

// f(PanelPlace) for each panel of rows [begin, end); begin is a multiple of max_panel_rows.
template <class F>
void for_each_panel(uint32_t begin, uint32_t end, uint32_t max_panel_rows, uint32_t n_columns,
                    F&& f) {
  size_t word = begin / max_panel_rows * panel_words(max_panel_rows, n_columns);
  while (begin < end) {
    const uint32_t n = panel_width(end - begin, max_panel_rows);
    f(PanelPlace{begin, n, word});
    begin += n;
    word += panel_words(n, n_columns);
  }
}

[[nodiscard]] inline size_t panels_words(uint32_t n_rows, uint32_t max_panel_rows,
                                         uint32_t n_columns) {
  const uint32_t n_full = n_rows / max_panel_rows;
  size_t words = n_full * panel_words(max_panel_rows, n_columns);
  for_each_panel(n_full * max_panel_rows, n_rows, max_panel_rows, n_columns,
                 [&](const PanelPlace& panel) { words += panel_words(panel.n, n_columns); });
  return words;
}

}  // namespace bp::cpu
