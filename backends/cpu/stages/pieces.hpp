#pragma once
// How products are cut: chunks of rows, and pieces of a few strips of a weight.

#include "backends/cpu/rows/activation_layout.hpp"
#include "backends/cpu/stages/stage.hpp"
#include "backends/cpu/weights/prepared_weight.hpp"

namespace bp::cpu {

inline constexpr uint32_t kPieceStrips = 4;  // at most, finished together
inline constexpr uint32_t kPieceColumns = kPieceStrips * kStripRows;

// Strips of a piece where all workers together have n_strips to go through, in pairs if there are
// enough.
[[nodiscard]] uint32_t piece_strips(uint32_t n_strips, uint32_t n_workers, bool in_pairs = false);

// Rows of activations that stay in the second-level cache while strips of weights pass by.
class ChunkSize {
 public:
  ChunkSize(uint32_t width, const ActivationForms& forms);
  // At most; a multiple of the kernels' panels of those forms.
  [[nodiscard]] uint32_t rows(const Kernels& kernels) const;
  // For n_rows in chunks of about one size, likewise.
  [[nodiscard]] uint32_t even_rows(const Kernels& kernels, uint32_t n_rows) const;

 private:
  [[nodiscard]] uint32_t panel(const Kernels& kernels) const;

  uint32_t most_rows_;
  ActivationForms forms_;
};

// Asks the system for what a weight's products read.
void read_ahead(const PreparedWeight& weight);

// Strips times rows [first, first + n) of x, which begin a panel, into y [n, kPieceColumns].
// scratch: what the weight wants.
void dot_strips(const Kernels& kernels, const PreparedWeight& weight, Range strips,
                const Activations& x, uint32_t first, uint32_t n, float* y, uint8_t* scratch);

}  // namespace bp::cpu
