#include "backends/cpu/stages/experts_memory.hpp"

#include "backends/cpu/round_up.hpp"
#include "backends/cpu/rows/panels.hpp"

namespace bp::cpu {

namespace {

// Of the parts, each aligned to 64.
struct Offsets {
  explicit Offsets(const ExpertsShape& s) {
    const size_t n_pairs = s.n_pairs();
    rows = take(RowsByMatrix::bytes(s.n_experts, s.n_pairs(), s.chunk_rows));
    ids = take(n_pairs * sizeof(float));
    shares = take(n_pairs * sizeof(float));
    floats = take(s.keeps_floats ? s.n_rows * round_up(s.width, 16) * sizeof(float) : 0);
    panels = take(s.n_rows * panel_words(1, s.width) * sizeof(int32_t));
    hidden = take(n_pairs * round_up(s.n_ff, 16) * sizeof(float));
    activations = take(n_pairs * s.hidden_row_bytes);
  }
  size_t take(size_t n_bytes) {
    const size_t at = end;
    end += round_up(n_bytes, 64);
    return at;
  }

  size_t end = 0;
  size_t rows, ids, shares, floats, panels, hidden, activations;
};

}  // namespace

size_t ExpertsMemory::bytes(const ExpertsShape& shape) {
  return Offsets(shape).end;
}

ExpertsMemory::ExpertsMemory(const ExpertsShape& shape, uint8_t* memory)
    : rows(memory, shape.n_experts, shape.n_pairs()),
      n_used(shape.n_used),
      float_stride(round_up(shape.width, 16)),
      panel_stride(panel_words(1, shape.width)),
      hidden_stride(round_up(shape.n_ff, 16)) {
  const Offsets at(shape);
  ids = reinterpret_cast<float*>(memory + at.ids);
  shares = reinterpret_cast<float*>(memory + at.shares);
  floats = reinterpret_cast<float*>(memory + at.floats);
  panels = reinterpret_cast<int32_t*>(memory + at.panels);
  hidden = reinterpret_cast<float*>(memory + at.hidden);
  activations = memory + at.activations;
}

}  // namespace bp::cpu
