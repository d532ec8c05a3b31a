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

  // The data part of a weight, all dimensions but the last counting rows.
  static WeightRows of(const bp_weight& weight);
  [[nodiscard]] WeightRows slice(uint64_t first, uint64_t n) const;
  [[nodiscard]] const uint8_t* row(uint64_t r) const { return data + r * row_stride_bytes; }
  auto operator<=>(const WeightRows&) const = default;
};

enum class Prepare {
  kNone,    // weights stay where they are; in each step quantised ones are packed strip by strip
  kRepack,  // quantised weights are kept packed in memory of our own
};

// Rows of activations that products read; which forms must be there, the weights say.
struct Activations {
  uint32_t n_rows = 0;
  const float* floats = nullptr;  // [n_rows, float_stride]
  size_t float_stride = 0;
  const int32_t* panels = nullptr;  // by for_each_panel
  const uint16_t* bf16 = nullptr;   // see Bf16Pack
};

class PreparedWeight {
 public:
  // The rows outlive the weight; what it holds itself comes from the arena.
  static Result<std::shared_ptr<const PreparedWeight>> create(const WeightRows& rows,
                                                              Prepare prepare, const Team& team,
                                                              WeightArena& arena);

  // Memory that kRepack takes for these rows.
  [[nodiscard]] static uint64_t repacked_bytes(const WeightRows& rows);

  [[nodiscard]] uint32_t n_rows() const { return rows_.n_rows; }
  [[nodiscard]] uint32_t n_columns() const { return rows_.n_columns; }
  [[nodiscard]] uint32_t n_strips() const { return (rows_.n_rows + kStripRows - 1) / kStripRows; }
  [[nodiscard]] bool takes_panels() const {
    return form_ == Form::kStrips || form_ == Form::kBlocks;
  }
  // Where the kernels have products for it; else floats.
  [[nodiscard]] bool takes_bf16() const {
    return form_ == Form::kFloats && float_type_ == FloatType::kBF16 &&
           rows_.n_columns % kBf16Columns == 0;
  }
  [[nodiscard]] uint64_t owned_bytes() const { return owned_bytes_; }
  // Of memory for dot_strip, aligned to 64.
  [[nodiscard]] size_t scratch_bytes() const;

  // y[t][r] = row r of the strip . x row t, for x rows [first, first + n), a whole number of
  // panels; y points to row `first` and has room for 16 values a row.
  void dot_strip(const Kernels& kernels, uint32_t strip, const Activations& x, uint32_t first,
                 uint32_t n, float* y, size_t y_stride, uint8_t* scratch) const;

 private:
  enum class Form : uint8_t {
    kStrips,   // packed, in owned_
    kBlocks,   // of a block type, packed when used
    kFloats,   // f32, f16, bf16 rows
    kDecoded,  // any other type, decoded to float32 when used
  };

  [[nodiscard]] Status pack(const Team& team, WeightArena& arena);
  [[nodiscard]] Status align(WeightArena& arena);
  [[nodiscard]] Status own(size_t n_bytes, WeightArena& arena);
  [[nodiscard]] uint32_t rows_of_strip(uint32_t strip) const;

  WeightRows rows_;
  Form form_ = Form::kDecoded;
  StripLayout layout_{};
  FloatType float_type_{};
  size_t strip_bytes_ = 0;
  WeightArena::Piece owned_;
  uint64_t owned_bytes_ = 0;
};

}  // namespace bp::cpu
