#include "backends/cuda/plan/attend_path.hpp"

namespace bp::cuda {

namespace {

constexpr uint32_t kBlocksOfMultiprocessor = 2;

}  // namespace

uint32_t flash_stages(const AttendParams& p, const DeviceInfo& device) {
  if (flash_kernel(p).function == nullptr || p.slopes != nullptr) return 0;
  for (const uint32_t n_stages : {2u, 1u}) {
    if (flash_shared_bytes(p, n_stages) <= device.shared_bytes_per_block) return n_stages;
  }
  return 0;
}

uint32_t flash_tile_rows(const bp_attr_attention& a, bp_dtype k_dtype, bp_dtype v_dtype,
                         uint32_t n_rows, const DeviceInfo& device) {
  const uint32_t n_heads = heads_together(a), exact = exact_flash_dim(a.head_dim, a.v_head_dim);
  if (!has_wide_flash(k_dtype, v_dtype, exact) || n_heads > kFlashRows) return kFlashRows;
  const uint64_t n_blocks = uint64_t{divide_up(n_rows, kWideFlashRows / n_heads)} * a.n_kv_heads;
  return 2 * n_blocks >= 3 * device.n_multiprocessors ? kWideFlashRows : kFlashRows;
}

uint32_t flash_slots(uint32_t n_kv_heads, const DeviceInfo& device) {
  return kBlocksOfMultiprocessor * device.n_multiprocessors / n_kv_heads;
}

bool may_split(uint32_t n_slots, uint32_t longest_context) {
  return n_slots > 1 && longest_context > kFlashPositions;
}

uint64_t split_bytes(uint32_t n_heads, uint32_t n_kv_heads, uint32_t v_head_dim,
                     const DeviceInfo& device) {
  const uint64_t n_slots = flash_slots(n_kv_heads, device);
  return n_slots * n_heads * floats_of_split(v_head_dim) * sizeof(float);
}

}  // namespace bp::cuda
