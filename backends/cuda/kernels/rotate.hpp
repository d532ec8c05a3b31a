#pragma once
// rope and rotate.

#include "backends/cuda/device/device.hpp"
#include "backends/cuda/kernels/views.hpp"

namespace bp::cuda {

// Pairs of a head's first n_dims columns turned by position * inv_freq, times magnitude.
struct Rotation {
  const float* inv_freq = nullptr;  // [n_dims / 2]
  uint32_t n_dims = 0;
  uint32_t in_halves = 0;  // pairs (i, i + n_dims / 2), else (2i, 2i + 1)
  float magnitude = 1;
};

// Queries and keys are turned together.
struct RotateParams {
  struct Part {
    Rows x, y;
    uint32_t n_heads = 0;
  };
  Part parts[2];
  uint32_t n_parts = 1;
  const StepView* step = nullptr;
  Rotation rotation;
  uint32_t n_rows = 0;
  uint32_t head_dim = 0;
};

[[nodiscard]] inline Geometry rotate_geometry(const RotateParams& p) {
  return {{p.n_rows, p.n_parts, 1}, 128, 0};
}
[[nodiscard]] Kernel<RotateParams> rotate_kernel();

}  // namespace bp::cuda
