#pragma once
// Which kernels attention takes, and how decoding is split.

#include "backends/cuda/kernels/flash.hpp"

namespace bp::cuda {

// Tiles of K and V that flash_kernel keeps in shared memory, two where they fit; 0 where the cache
// or the heads are not for it.
[[nodiscard]] uint32_t flash_stages(const AttendParams& p, const DeviceInfo& device);

// Parts that the positions of each query are split into: decoding few sequences would leave most of
// the device idle. longest_context bounds that of the sequences.
[[nodiscard]] uint32_t flash_splits(const AttendParams& p, bool is_decode, uint32_t longest_context,
                                    const DeviceInfo& device);

// Bytes of the partial sums for any number of rows.
[[nodiscard]] uint64_t most_split_bytes(uint32_t n_heads, uint32_t n_kv_heads, uint32_t v_head_dim,
                                        const DeviceInfo& device);

}  // namespace bp::cuda
