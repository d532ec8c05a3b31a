#pragma once
// Ops with state: short_conv and gated_delta. A sequence's tokens are run in order; its state comes
// from entry state_in (zeros for 0) and is left in entry state_out.

#include "backends/cuda/device/device.hpp"
#include "backends/cuda/kernels/views.hpp"

namespace bp::cuda {

struct ShortConvParams {
  Rows x, y;
  const float* w = nullptr;     // [width, kernel]
  const float* bias = nullptr;  // [width], or null
  float* entries = nullptr;     // [n_entries, kernel - 1, width]
  const StepView* step = nullptr;
  uint32_t n_seqs = 0;  // at least as many as the step has
  uint32_t width = 0;
  uint32_t kernel = 0;
  uint32_t activation = 0;
};

// A thread for each column of a sequence.
[[nodiscard]] inline Geometry short_conv_geometry(const ShortConvParams& p) {
  return {{p.n_seqs, divide_up(p.width, 128), 1}, 128, 0};
}
[[nodiscard]] Kernel<ShortConvParams> short_conv_kernel();

inline constexpr uint32_t kMaxStateKeyDim = 1024;

struct GatedDeltaParams {
  Rows qkv, a, b, o;
  const float* decay = nullptr;    // [n_heads]
  const float* dt_bias = nullptr;  // [n_heads], or null
  float* entries = nullptr;        // [n_entries, n_heads, key_dim, value_dim]
  const StepView* step = nullptr;
  uint32_t n_seqs = 0;
  uint32_t n_heads = 0, n_key_heads = 0, key_dim = 0, value_dim = 0;
  float scale = 1;
  float eps = 0;
};

// A block for each head of a sequence; the token's q and k in shared memory.
[[nodiscard]] inline Geometry gated_delta_geometry(const GatedDeltaParams& p) {
  return {{p.n_seqs, p.n_heads, 1}, 128, 2 * p.key_dim * 4};
}
[[nodiscard]] Kernel<GatedDeltaParams> gated_delta_kernel();

}  // namespace bp::cuda
