#pragma once
// Ops that compute each element by itself: add, multiply, scale, activate, clamp, softcap,
// residual_scale, the gate of gated_mlp and moe.

#include "backends/cuda/device/device.hpp"
#include "backends/cuda/kernels/views.hpp"

namespace bp::cuda {

enum class Elementwise : uint32_t {
  kAdd,             // a + b
  kMultiply,        // a * (b + p)
  kScale,           // a * p
  kActivate,        // activation(a)
  kClamp,           // min(max(a, p), q)
  kSoftcap,         // p * tanh(a / p)
  kAddScaled,       // b + p * a
  kGate,            // activation(a) * b
  kGateWithLimits,  // g * sigmoid(q * g) * (u + 1); g = min(a, p), u = b within +-p
};

// b is a value, or a row of n_repeated floats that repeats along and down.
struct ElementwiseParams {
  Elementwise op = Elementwise::kAdd;
  uint32_t activation = 0;  // BP_ACT_*
  Rows a, b, y;             // y may be a
  const float* repeated = nullptr;
  uint32_t n_repeated = 0;
  uint32_t n_rows = 0;
  uint32_t width = 0;
  float p = 0, q = 0;
};

[[nodiscard]] inline Geometry elementwise_geometry(const ElementwiseParams& p) {
  return {{p.n_rows, divide_up(p.width, 1024), 1}, 256, 0};
}
[[nodiscard]] Kernel<ElementwiseParams> elementwise_kernel();

}  // namespace bp::cuda
