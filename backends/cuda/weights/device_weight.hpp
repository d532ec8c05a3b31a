#pragma once
// A weight of a program and its place in device memory.

#include <compare>
#include <cstdint>
#include <memory>

#include "backends/cuda/device/device.hpp"
#include "backends/cuda/kernels/views.hpp"
#include "backplane/program.h"

namespace bp::cuda {

// Rows as they lie in the host's memory. Equal ones are the same weight.
struct SourceRows {
  const uint8_t* data = nullptr;
  uint64_t stride_bytes = 0;
  uint64_t n_rows = 0;
  uint32_t n_columns = 0;
  bp_dtype dtype = BP_DTYPE_NONE;
  bool as_floats = false;  // decoded when uploaded: norms, biases, frequencies

  static SourceRows of(const bp_weight_part& part, bool as_floats);
  auto operator<=>(const SourceRows&) const = default;

  [[nodiscard]] uint64_t source_bytes() const;
  [[nodiscard]] bp_dtype device_dtype() const { return as_floats ? BP_DTYPE_F32 : dtype; }
  // From a row in device memory to the next: matrices start every row at a multiple of 16 bytes,
  // in planes where their type has some; floats follow each other without gaps.
  [[nodiscard]] uint64_t device_row_bytes() const;
  [[nodiscard]] uint64_t device_bytes() const;
  // One row for the device, zeros behind its last column.
  void write_row(uint64_t row, uint8_t* out) const;
};

// The address is there once the weight is placed; launches read it then.
class DeviceWeight {
 public:
  explicit DeviceWeight(const SourceRows& source) : source_(source) {}

  [[nodiscard]] const SourceRows& source() const { return source_; }
  [[nodiscard]] bool is_placed() const { return data_ != nullptr; }
  void place(std::shared_ptr<const Memory> arena, uint8_t* data, const void* grid) {
    arena_ = std::move(arena);
    data_ = data;
    grid_ = grid;
  }

  [[nodiscard]] uint8_t* data() const { return data_; }
  [[nodiscard]] Matrix matrix() const {
    return {data_, grid_, source_.device_row_bytes(), source_.n_columns, source_.device_dtype()};
  }
  [[nodiscard]] const float* floats() const { return reinterpret_cast<const float*>(data_); }

 private:
  SourceRows source_;
  std::shared_ptr<const Memory> arena_;
  uint8_t* data_ = nullptr;
  const void* grid_ = nullptr;
};

}  // namespace bp::cuda
