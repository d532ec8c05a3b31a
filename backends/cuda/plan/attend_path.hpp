#pragma once
// Which kernels attention takes, and into how many parts positions are split.

#include "backends/cuda/kernels/flash.hpp"
#include "backplane/ops.h"

namespace bp::cuda {

// Tiles of K and V that flash_kernel keeps in shared memory, two where they fit; 0 where the cache
// or the heads are not for it.
[[nodiscard]] uint32_t flash_stages(const AttendParams& p, const DeviceInfo& device);

// That share a KV head.
[[nodiscard]] constexpr uint32_t heads_together(const bp_attr_attention& a) {
  return a.n_heads / a.n_kv_heads;
}

// Query rows of a block: kWideFlashRows where there are kernels for them, and where so large blocks
// still fill the device.
[[nodiscard]] uint32_t flash_tile_rows(const bp_attr_attention& a, bp_dtype k_dtype,
                                       bp_dtype v_dtype, uint32_t n_rows, const DeviceInfo& device);

// Parts of positions, of one token each, that have a place for their partial sums: a block for each
// KV head of each fills the device. Decoding few sequences, or a long one beside others, would
// leave most of it idle.
[[nodiscard]] uint32_t flash_slots(uint32_t n_kv_heads, const DeviceInfo& device);
// Whether sequences up to that long can have parts at all.
[[nodiscard]] bool may_split(uint32_t n_slots, uint32_t longest_context);
// Bytes of the partial sums.
[[nodiscard]] uint64_t split_bytes(uint32_t n_heads, uint32_t n_kv_heads, uint32_t v_head_dim,
                                   const DeviceInfo& device);

}  // namespace bp::cuda
