#pragma once
// embed, gather and add_positions: rows of a table by token id or position. And expand: rows of a
// weight as bf16, for products that have no kernel for its type.

#include "backends/cuda/device/device.hpp"
#include "backends/cuda/kernels/views.hpp"

namespace bp::cuda {

enum class RowsBy : uint32_t { kToken, kPosition, kNumber };

// y[t] = table[token t, or position t + offset] * scale, plus x[t] where x is not null. Ids outside
// of the table, which only sequences that do not run have, give zeros.
// By number: bf16 [t] = table[t + offset].
struct EmbedParams {
  Matrix table;
  const StepView* step = nullptr;
  Rows x, y;
  uint32_t n_rows = 0;   // of y
  uint32_t n_table = 0;  // rows of the table
  float scale = 1;
  RowsBy by = RowsBy::kToken;
  uint32_t offset = 0;
  uint8_t* bf16 = nullptr;  // rows from 16 to 16 bytes
  uint64_t bf16_row_bytes = 0;
};

[[nodiscard]] inline Geometry embed_geometry(const EmbedParams& p) {
  return {{p.n_rows, 1, 1}, 128, 0};
}
[[nodiscard]] Kernel<EmbedParams> embed_kernel(bp_dtype dtype);

}  // namespace bp::cuda
