#include "backends/cpu/rows/row_peaks.hpp"

namespace bp::cpu {

RowPeaks::RowPeaks(uint32_t n_rows, uint32_t n_workers) : seen_(n_workers) {
  for (Seen& seen : seen_) {
    seen.values.assign(n_rows, Peak().value);
    seen.columns.assign(n_rows, Peak().column);
  }
}

bool RowPeaks::replaces(Peak peak, Peak by) {
  return by.value > peak.value || (by.value == peak.value && by.column < peak.column);
}

// Mostly no value of a piece reaches the greatest before it, which one comparison of each tells.
void RowPeaks::note(const Kernels& kernels, uint32_t worker, uint32_t row, uint32_t n_rows,
                    uint32_t column, const float* y, size_t stride, uint32_t n) {
  Seen& seen = seen_[worker];
  float* const values = seen.values.data() + row;
  uint32_t* const columns = seen.columns.data() + row;
  for (uint32_t t = 0;; ++t) {
    t = kernels.find_reaching(y, stride, values, t, n_rows, n);
    if (t == n_rows) return;
    Peak peak{values[t], columns[t]};
    for (uint32_t c = 0; c < n; ++c) {
      const float value = y[t * stride + c];
      const Peak by{value < kInfinity ? value : kInfinity, column + c};
      if (replaces(peak, by)) peak = by;
    }
    values[t] = peak.value;
    columns[t] = peak.column;
  }
}

int32_t RowPeaks::column_of(uint32_t row) const {
  Peak peak;
  for (const Seen& seen : seen_) {
    const Peak by{seen.values[row], seen.columns[row]};
    if (replaces(peak, by)) peak = by;
  }
  const bool is_number = peak.value > -kInfinity && peak.value < kInfinity;
  return is_number ? static_cast<int32_t>(peak.column) : -1;
}

}  // namespace bp::cpu
