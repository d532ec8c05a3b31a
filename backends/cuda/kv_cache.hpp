#pragma once
// Paged K and V of every KV slot in device memory.

#include <optional>
#include <span>
#include <vector>

#include "backends/cuda/device/device.hpp"
#include "backends/cuda/kernels/views.hpp"
#include "backplane/batch.h"
#include "backplane/program.h"

namespace bp::cuda {

class KvCache {
 public:
  KvCache(std::span<const bp_kv_slot> slots, uint32_t n_groups, uint32_t block_size,
          bp_dtype k_dtype, bp_dtype v_dtype);

  [[nodiscard]] uint32_t block_size() const { return block_size_; }
  [[nodiscard]] bp_dtype k_dtype() const { return k_dtype_; }
  [[nodiscard]] bp_dtype v_dtype() const { return v_dtype_; }
  [[nodiscard]] uint64_t block_bytes(uint32_t group) const;
  [[nodiscard]] bool is_allocated() const { return is_allocated_; }
  [[nodiscard]] std::span<const uint32_t> n_blocks() const { return n_blocks_; }

  // n_blocks of each group, in one allocation, once; contents begin as zeros when the stream is
  // done.
  Status allocate(Device& device, Stream& stream, std::span<const uint32_t> n_blocks);

  // Clears or copies a block in all slots of its group. Indices are in range.
  Status apply(Stream& stream, const bp_block_op& op) const;

  // Addresses are there once the cache is allocated.
  [[nodiscard]] const KvPlane& k(uint32_t slot) const { return layers_[slot].k; }
  [[nodiscard]] const KvPlane& v(uint32_t slot) const { return layers_[slot].v; }
  [[nodiscard]] uint32_t group(uint32_t slot) const { return layers_[slot].group; }

 private:
  struct Layer {
    uint32_t group;
    KvPlane k, v;
  };

  std::vector<Layer> layers_;  // of each slot
  Memory memory_;
  std::vector<uint32_t> n_blocks_;
  uint32_t n_groups_;
  uint32_t block_size_;
  bp_dtype k_dtype_, v_dtype_;
  bool is_allocated_ = false;
};

// What the cache keeps where the host proposes: a power of two within what kernels like.
[[nodiscard]] uint32_t choose_block_size(uint32_t proposed);

}  // namespace bp::cuda
