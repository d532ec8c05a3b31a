#include "backends/cuda/plan/attend_path.hpp"

#include <algorithm>

namespace bp::cuda {

namespace {

constexpr uint32_t kBlocksOfMultiprocessor = 2;

// Splits times rows, of which there is a block for each KV head.
uint32_t rows_wanted(uint32_t n_kv_heads, const DeviceInfo& device) {
  return kBlocksOfMultiprocessor * device.n_multiprocessors / n_kv_heads;
}

}  // namespace

uint32_t flash_stages(const AttendParams& p, const DeviceInfo& device) {
  if (flash_kernel(p).function == nullptr || p.slopes != nullptr) return 0;
  for (const uint32_t n_stages : {2u, 1u}) {
    if (flash_shared_bytes(p, n_stages) <= device.shared_bytes_per_block) return n_stages;
  }
  return 0;
}

uint32_t flash_splits(const AttendParams& p, bool is_decode, uint32_t longest_context,
                      const DeviceInfo& device) {
  if (!is_decode) return 1;
  const uint32_t wanted = rows_wanted(p.k.n_heads, device) / p.n_rows;
  const uint32_t most = std::min(kMaxFlashSplits, divide_up(longest_context, kFlashPositions));
  return std::clamp(wanted, 1u, std::max(most, 1u));
}

uint64_t most_split_bytes(uint32_t n_heads, uint32_t n_kv_heads, uint32_t v_head_dim,
                          const DeviceInfo& device) {
  const uint64_t n_rows = rows_wanted(n_kv_heads, device);
  return n_rows * n_heads * floats_of_split(v_head_dim) * sizeof(float);
}

}  // namespace bp::cuda
