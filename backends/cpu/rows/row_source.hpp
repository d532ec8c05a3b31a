#pragma once
// Rows that a matrix product reads: a value, perhaps normalised, perhaps only the rows of an
// output.

#include <cstdint>
#include <optional>

#include "backends/cpu/rows/normalization.hpp"
#include "backends/cpu/stages/stage.hpp"

namespace bp::cpu {

struct RowSource {
  uint32_t buffer = 0;
  uint32_t width = 0;
  RowCount count;  // of the rows read
  std::optional<Normalization> norm;
  std::optional<uint32_t> selected_for;  // output whose token rows are read
  bool holds_pass = false;               // the buffer has the rows of a pass alone

  // Of the pass's rows.
  [[nodiscard]] const float* row(const StepContext& step, uint32_t r) const {
    const uint32_t at = first(step) + r;
    return step.values[buffer].row(selected_for ? step.outputs[*selected_for][at] : at);
  }
  [[nodiscard]] uint32_t first(const StepContext& step) const {
    return holds_pass ? 0 : count.range(step).begin;
  }
  // Whether rows are read as they stand in the buffer.
  [[nodiscard]] bool is_plain() const { return !norm && !selected_for; }
};

}  // namespace bp::cpu
