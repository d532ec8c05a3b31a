#pragma once
// What the workers of a mixture of experts share during a step, in the stage's shared memory.

#include "backends/cpu/rows/rows_by_matrix.hpp"

namespace bp::cpu {

struct ExpertsShape {
  uint32_t n_rows, n_experts, n_used;
  uint32_t width, n_ff;
  uint32_t chunk_rows;
  bool keeps_floats;        // rows are normalised
  size_t hidden_row_bytes;  // of the forms that down takes
  [[nodiscard]] uint32_t n_pairs() const { return n_rows * n_used; }
};

struct ExpertsMemory {
  [[nodiscard]] static size_t bytes(const ExpertsShape& shape);
  // memory: bytes(shape), aligned to 64.
  ExpertsMemory(const ExpertsShape& shape, uint8_t* memory);

  [[nodiscard]] float* row_floats(uint32_t row) const { return floats + row * float_stride; }
  [[nodiscard]] int32_t* panel(uint32_t row) const { return panels + row * panel_stride; }
  [[nodiscard]] float* hidden_row(uint32_t sorted) const { return hidden + sorted * hidden_stride; }
  [[nodiscard]] uint32_t row_of(uint32_t sorted) const { return rows.pair(sorted) / n_used; }
  [[nodiscard]] float share_of(uint32_t sorted) const { return shares[rows.pair(sorted)]; }

  RowsByMatrix rows;     // its pairs are a row and one of the n_used experts it takes
  float* ids;            // [n_rows, n_used]
  float* shares;         // [n_rows, n_used]
  float* floats;         // [n_rows, float_stride], where they are kept
  int32_t* panels;       // [n_rows, panel_stride], each of one row
  float* hidden;         // [n_pairs, hidden_stride], pairs sorted
  uint8_t* activations;  // hidden rows as down takes them, each expert's from its first pair on
  uint32_t n_used;
  size_t float_stride, panel_stride, hidden_stride;
};

}  // namespace bp::cpu
