#include "backends/cuda/kernels/flash.hpp"

#include <algorithm>

#include "backends/cuda/kernels/kernel_lists.hpp"

namespace bp::cuda {

uint32_t flash_shared_bytes(const AttendParams& p, uint32_t n_stages) {
  const uint32_t k = round_up(p.k.head_dim, 16) + 8, v = round_up(p.v.head_dim, 16) + 8;
  const bool is_widened = p.k.dtype == BP_DTYPE_F8_E4M3 || p.k.dtype == BP_DTYPE_Q8_0;
  const uint32_t tile = kFlashPositions * (k + v) * 2;
  const uint32_t raw = kFlashPositions * (p.k.row_bytes + p.v.row_bytes);
  const uint32_t work = kFlashRows * k * 2 + (is_widened ? tile + raw : n_stages * tile);
  const uint32_t partials = kFlashWarps * 16 * (2 + v) * 4;
  return std::max(work, partials);
}

Geometry flash_geometry(const AttendParams& p) {
  // A tile more for each sequence, and for the tokens that pad the step.
  const uint32_t n_tiles = divide_up(p.n_rows, tokens_of_flash_tile(p)) + p.n_seqs + 1;
  return {{n_tiles, p.k.n_heads, p.n_splits}, kFlashWarps * 32, flash_shared_bytes(p, p.n_stages)};
}

Kernel<AttendParams> flash_kernel(const AttendParams& p) {
  const bool fits = p.k.head_dim <= kMaxFlashDim && p.v.head_dim <= kMaxFlashDim &&
                    heads_together(p) <= kFlashRows;
  if (p.k.dtype != p.v.dtype || !fits) return {};
  const auto kernel = flash_kernel_of_halves(p);
  return kernel.function != nullptr ? kernel : flash_kernel_of_bytes(p);
}

}  // namespace bp::cuda
