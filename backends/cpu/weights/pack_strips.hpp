#pragma once
// From rows of file blocks to strips.

#include <cstddef>
#include <cstdint>
#include <optional>

#include "backends/cpu/kernels/bf16_weights.hpp"
#include "backends/cpu/weights/strip_layout.hpp"
#include "backplane/dtype.h"

namespace bp::cpu {

// Every block type has one.
[[nodiscard]] std::optional<StripLayout> strip_layout_of(bp_dtype dtype);

// Bytes of one strip of n_columns.
[[nodiscard]] size_t strip_bytes(StripLayout layout, uint32_t n_columns);

// Packs rows [0, n_rows) of a block type at `rows`, n_rows <= 16, into one strip of its layout.
// n_columns is a whole number of the type's blocks.
void pack_strip(bp_dtype dtype, const uint8_t* rows, size_t row_stride_bytes, uint32_t n_rows,
                uint32_t n_columns, uint8_t* strip);

// Rows [0, n_rows) of bf16, n_rows <= kStripRows, as a strip in kTiles or kSplit, zeros for the
// rows that there are not.
void pack_bf16_strip(const uint8_t* rows, size_t row_stride_bytes, uint32_t n_rows,
                     uint32_t n_columns, Bf16Layout layout, uint8_t* strip);

}  // namespace bp::cpu
