#pragma once
// Rows of float32.

#include <cstdint>
#include <span>

namespace bp::reference {

// A view; row-major without gaps.
struct Matrix {
  float* data = nullptr;
  uint64_t n_rows = 0;
  uint64_t width = 0;

  [[nodiscard]] float* row(uint64_t i) const { return data + i * width; }
  [[nodiscard]] std::span<float> all() const { return {data, n_rows * width}; }
};

}  // namespace bp::reference
