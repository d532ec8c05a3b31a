#pragma once
// kv_write, and how rows of the KV cache lie.

#include "backends/cuda/device/device.hpp"
#include "backends/cuda/kernels/views.hpp"

namespace bp::cuda {

[[nodiscard]] constexpr bool is_kv_dtype(bp_dtype dtype) {
  return dtype == BP_DTYPE_F32 || dtype == BP_DTYPE_F16 || dtype == BP_DTYPE_BF16 ||
         dtype == BP_DTYPE_F8_E4M3 || dtype == BP_DTYPE_Q8_0;
}

// Bytes of one head's row, a multiple of 16.
[[nodiscard]] constexpr uint32_t kv_row_bytes(bp_dtype dtype, uint32_t head_dim) {
  switch (dtype) {
    case BP_DTYPE_F32:
      return round_up(4 * head_dim, 16);
    case BP_DTYPE_F8_E4M3:
      return round_up(head_dim, 16);
    case BP_DTYPE_Q8_0:
      return round_up(round_up(head_dim, 4) + 2 * divide_up(head_dim, 32), 16);
    default:
      return round_up(2 * head_dim, 16);
  }
}

// x[t], heads one after another, to the blocks of the tokens' positions; K and V together where
// they have one type. Sequences that do not run write nothing.
struct KvWriteParams {
  struct Part {
    Rows x;
    KvPlane plane;
  };
  Part parts[2];
  uint32_t n_parts = 1;
  const StepView* step = nullptr;
  uint32_t group = 0;
  uint32_t n_rows = 0;
};

// A warp for each head of a token.
[[nodiscard]] inline Geometry kv_write_geometry(const KvWriteParams& p) {
  return {{p.n_rows, divide_up(p.parts[0].plane.n_heads, 4), p.n_parts}, 128, 0};
}
[[nodiscard]] Kernel<KvWriteParams> kv_write_kernel(bp_dtype dtype);

}  // namespace bp::cuda
