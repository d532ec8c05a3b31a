#pragma once
// How rows of activations are cut into panels; see kernels/kernel_table.hpp for a panel's content.

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "backends/cpu/kernels/kernel_table.hpp"

namespace bp::cpu {

// Width of the panel that begins where n_rows are left.
[[nodiscard]] inline uint32_t panel_width(uint32_t n_rows, uint32_t max_panel_rows) {
  const uint32_t most = std::min(n_rows, max_panel_rows);
  return *std::find_if(std::begin(kPanelWidths), std::end(kPanelWidths),
                       [=](uint32_t width) { return width <= most; });
}

// Words of one row's share of a panel; panel rows lie together, so that the panel of rows
// [first, first + n) begins at word first * panel_row_words.
[[nodiscard]] constexpr size_t panel_row_words(uint32_t n_columns) {
  return size_t{n_columns} / kPanelColumns * kPanelWords;
}

// f(first, n) for each panel of rows [begin, end), where begin is 0 or the end of a panel.
template <class F>
void for_each_panel(uint32_t begin, uint32_t end, uint32_t max_panel_rows, F&& f) {
  while (begin < end) {
    const uint32_t n = panel_width(end - begin, max_panel_rows);
    f(begin, n);
    begin += n;
  }
}

}  // namespace bp::cpu
