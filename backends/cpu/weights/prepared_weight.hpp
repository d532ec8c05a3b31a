#pragma once
// A weight matrix in the form that products take, and products of its strips with activations.

#include <cstdint>
#include <memory>
#include <span>

#include "backends/cpu/kernels/kernel_table.hpp"
#include "backends/cpu/rows/panels.hpp"
#include "backends/cpu/threads/team.hpp"
#include "backends/cpu/weights/strip_layout.hpp"
#include "backends/cpu/weights/weight_arena.hpp"
#include "backplane/backend.hpp"
#include "backplane/dtype.h"
#include "backplane/program.h"

namespace bp::cpu {

// Rows of a weight where the program has them.
struct WeightRows {
  const uint8_t* data = nullptr;
  size_t row_stride_bytes = 0;
  bp_dtype dtype = BP_DTYPE_NONE;
  uint32_t n_rows = 0;
  uint32_t n_columns = 0;
  uint32_t file = BP_NONE;  // of the model, where `data` lies in one
  uint64_t file_offset = 0;

  // The data part of a weight, all dimensions but the last counting rows.
  static WeightRows of(const bp_weight& weight);
  [[nodiscard]] WeightRows slice(uint64_t first, uint64_t n) const;
  [[nodiscard]] const uint8_t* row(uint64_t r) const { return data + r * row_stride_bytes; }
  // From the first row's first byte to the last one's last.
  [[nodiscard]] uint64_t source_bytes() const;
  auto operator<=>(const WeightRows&) const = default;
};

enum class Prepare {
  kNone,    // weights stay where they are; in each step quantised ones are packed strip by strip
  kRepack,  // they are kept packed in memory of our own; those of bf16 that a file has, too
  kCache,   // likewise in a mapped file
};

// Rows of activations that products read; which forms must be there, the weights say.
struct Activations {
  uint32_t n_rows = 0;
  const float* floats = nullptr;  // [n_rows, float_stride]
  size_t float_stride = 0;
  const int32_t* panels = nullptr;  // by for_each_panel
  const uint8_t* bf16 = nullptr;    // see Bf16Pack
};

class PreparedWeight {
 public:
  // Not usable before it is placed. The rows outlive the weight. Strips of bf16 have that layout.
  PreparedWeight(const WeightRows& rows, Prepare prepare, Bf16Layout bf16_layout);

  // Bytes of these rows as strips; 0 where they stay as they are.
  [[nodiscard]] uint64_t packed_bytes() const {
    return has_strips() ? n_strips() * strip_bytes_ : 0;
  }

  // Puts strips that are not placed yet, and rows that kernels cannot read, into the arena.
  Status place(const Team& team, WeightArena& arena);
  // What that takes for strips.
  [[nodiscard]] uint64_t bytes_to_place() const { return is_placed() ? 0 : packed_bytes(); }
  // Takes strips that pack_into has made, now or earlier.
  void place(std::shared_ptr<const uint8_t> strips) { strips_ = std::move(strips); }
  // Writes strips [first, first + n) to `to`.
  void pack_into(uint32_t first, uint32_t n, uint8_t* to) const;

  [[nodiscard]] const WeightRows& rows() const { return rows_; }
  // Whether it reads strips, of strip_bytes each.
  [[nodiscard]] bool has_strips() const { return form_ == Form::kStrips || form_ == Form::kBf16; }
  [[nodiscard]] bool is_placed() const { return !has_strips() || strips_ != nullptr; }
  [[nodiscard]] size_t strip_bytes() const { return strip_bytes_; }
  [[nodiscard]] Bf16Layout bf16_layout() const { return bf16_layout_; }
  // What products read.
  [[nodiscard]] std::span<const uint8_t> bytes() const;

  [[nodiscard]] uint32_t n_rows() const { return rows_.n_rows; }
  [[nodiscard]] uint32_t n_columns() const { return rows_.n_columns; }
  [[nodiscard]] uint32_t n_strips() const { return (rows_.n_rows + kStripRows - 1) / kStripRows; }
  [[nodiscard]] bool takes_panels() const {
    return form_ == Form::kStrips || form_ == Form::kBlocks;
  }
  // Where the kernels have products for it; else floats.
  [[nodiscard]] bool takes_bf16() const {
    return rows_.dtype == BP_DTYPE_BF16 && rows_.n_columns % kBf16Columns == 0;
  }
  [[nodiscard]] uint64_t owned_bytes() const { return owned_bytes_; }  // of the arena
  // Of memory for dot_strips by these kernels, aligned to 64.
  [[nodiscard]] size_t scratch_bytes(const Kernels& kernels) const;

  // y[t][r] = row r of strips [strip, strip + n_strips) . x row t, for x rows [first, first + n), a
  // whole number of panels; y points to row `first` and has room for 16 values a strip and row.
  void dot_strips(const Kernels& kernels, uint32_t strip, uint32_t n_strips, const Activations& x,
                  uint32_t first, uint32_t n, float* y, size_t y_stride, uint8_t* scratch) const;

 private:
  enum class Form : uint8_t {
    kStrips,   // packed, in strips_
    kBlocks,   // of a block type, packed when used
    kBf16,     // packed, in strips_
    kFloats,   // f32, f16, bf16 rows
    kDecoded,  // any other type, decoded to float32 when used
  };

  class NextPair;

  Status align(WeightArena& arena);
  Result<WeightArena::Piece> own(size_t n_bytes, WeightArena& arena);
  [[nodiscard]] uint32_t rows_of_strip(uint32_t strip) const;
  void dot_packed(const Kernels& kernels, const TileStrips& strips, const Activations& x,
                  uint32_t first, uint32_t n, float* y, size_t y_stride, uint8_t* scratch) const;
  // The panels of x rows [begin, end) that unpacked strips serve, times the pair at `pair`.
  void dot_unpacked(const Kernels& kernels, const uint8_t* pair, const Activations& x,
                    uint32_t begin, uint32_t end, NextPair& next, float* y, size_t y_stride,
                    uint8_t* scratch) const;
  void dot_bf16(const Kernels& kernels, uint32_t strip, uint32_t n_strips, const Activations& x,
                uint32_t first, uint32_t n, float* y, size_t y_stride, uint8_t* scratch) const;
  void dot_strip(const Kernels& kernels, uint32_t strip, const Activations& x, uint32_t first,
                 uint32_t n, float* y, size_t y_stride, uint8_t* scratch) const;

  WeightRows rows_;
  Form form_ = Form::kDecoded;
  StripLayout layout_{};
  FloatType float_type_{};
  size_t strip_bytes_ = 0;
  Bf16Layout bf16_layout_ = Bf16Layout::kRows;
  std::shared_ptr<const uint8_t> strips_;  // [n_strips, strip_bytes_], or the aligned rows
  uint64_t owned_bytes_ = 0;
};

}  // namespace bp::cpu
