#pragma once
// The greatest value of each row of a program output, found while its pieces are written: later,
// rows of all tokens of a vocabulary would have to come back into the caches.

#include <cstdint>
#include <limits>
#include <vector>

#include "backends/cpu/kernels/kernel_table.hpp"

namespace bp::cpu {

class RowPeaks {
 public:
  RowPeaks(uint32_t n_rows, uint32_t n_workers);

  // Columns [column, column + n) of rows [row, row + n_rows) have got their values: y [n_rows, n].
  // Each worker notes its own pieces, in any order.
  void note(const Kernels& kernels, uint32_t worker, uint32_t row, uint32_t n_rows, uint32_t column,
            const float* y, size_t stride, uint32_t n);
  // The lowest column of the greatest value, once all of the row is noted. -1 where some value is
  // NaN or +infinity, where all are -infinity, and where none was noted.
  [[nodiscard]] int32_t column_of(uint32_t row) const;

 private:
  static constexpr float kInfinity = std::numeric_limits<float>::infinity();
  // Of one row, as far as one worker has seen it: +infinity stands for NaN too.
  struct Peak {
    float value = -kInfinity;
    uint32_t column = 0;
  };
  // Of one worker.
  struct Seen {
    std::vector<float> values;      // [n_rows]
    std::vector<uint32_t> columns;  // [n_rows]
  };
  [[nodiscard]] static bool replaces(Peak peak, Peak by);

  std::vector<Seen> seen_;  // [n_workers]
};

}  // namespace bp::cpu
