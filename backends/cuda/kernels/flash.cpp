#include "backends/cuda/kernels/flash.hpp"

#include <algorithm>

#include "backends/cuda/kernels/kernel_lists.hpp"

namespace bp::cuda {

uint32_t flash_shared_bytes(const AttendParams& p, uint32_t n_stages) {
  const uint32_t k = round_up(p.k.head_dim, 16) + 8, v = round_up(p.v.head_dim, 16) + 8;
  const bool is_widened = p.v.dtype == BP_DTYPE_F8_E4M3 || p.v.dtype == BP_DTYPE_Q8_0;
  const uint32_t tile = kFlashPositions * (k + v) * 2;
  const uint32_t raw = kFlashPositions * (p.k.row_bytes + p.v.row_bytes);
  const uint32_t work = p.tile_rows * k * 2 + (is_widened ? tile + raw : n_stages * tile);
  const uint32_t partials = kFlashWarps * 16 * (2 + v) * 4;
  return std::max(work, partials);
}

Geometry flash_geometry(const AttendParams& p) {
  return {
      {p.work.most_items * p.k.n_heads, 1, 1}, kFlashWarps * 32, flash_shared_bytes(p, p.n_stages)};
}

Kernel<AttendParams> flash_kernel(const AttendParams& p) {
  const bool fits = p.k.head_dim <= kMaxFlashDim && p.v.head_dim <= kMaxFlashDim &&
                    heads_together(p) <= kFlashRows;
  if (!flash_takes(p.k.dtype, p.v.dtype) || !fits) return {};
  for (const auto find : {flash_kernel_of_halves, flash_kernel_of_bytes, flash_kernel_of_mixed}) {
    const auto kernel = find(p);
    if (kernel.function != nullptr) return kernel;
  }
  return {};
}

}  // namespace bp::cuda
