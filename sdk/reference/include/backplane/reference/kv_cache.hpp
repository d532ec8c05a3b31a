#pragma once
// Paged K and V of every KV slot, kept as float32 and rounded to the chosen types when stored; to
// q8_0 and q4_0 by 32 dimensions of a head, of which the last ones may be fewer.

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <vector>

#include "backplane/batch.h"
#include "backplane/program.h"
#include "backplane/status.hpp"

namespace bp::reference {

// In which images hold rows of a type: q8_0 and q4_0 as the floats that they stand for.
[[nodiscard]] bp_dtype image_dtype(bp_dtype kept);

class KvCache {
 public:
  KvCache(std::span<const bp_kv_slot> slots, uint32_t n_groups, uint32_t block_size,
          bp_dtype k_dtype, bp_dtype v_dtype);

  [[nodiscard]] uint32_t block_size() const { return block_size_; }
  [[nodiscard]] uint64_t block_bytes(uint32_t group) const;
  [[nodiscard]] std::span<const uint32_t> n_blocks() const { return n_blocks_; }

  // n_blocks of each group; contents begin as zeros.
  Status allocate(std::span<const uint32_t> n_blocks);

  // Clears or copies a block in all slots of its group. Indices are in range.
  void apply(const bp_block_op& op);

  // Stores one token's k [n_kv_heads, k_head_dim] and v [n_kv_heads, v_head_dim].
  void store(uint32_t slot, uint64_t block, uint64_t offset, const float* k, const float* v);

  // [n_kv_heads, k_head_dim] and [n_kv_heads, v_head_dim] of one token.
  [[nodiscard]] const float* k(uint32_t slot, uint64_t block, uint64_t offset) const;
  [[nodiscard]] const float* v(uint32_t slot, uint64_t block, uint64_t offset) const;

  // A block's K or V of a slot as an image has it, in type image_dtype() of the cache's type.
  void export_rows(uint32_t slot, bool is_value, int32_t block, uint8_t* to) const;
  void import_rows(uint32_t slot, bool is_value, int32_t block, const uint8_t* from);

 private:
  struct Free {
    void operator()(float* p) const { std::free(p); }
  };
  struct Layer {
    uint32_t group;
    uint32_t n_heads;
    uint64_t k_width, v_width;            // of one token, all heads
    std::unique_ptr<float[], Free> k, v;  // [n_blocks, block_size, width]
  };

  // K or V of a block, [block_size, width], and its type.
  struct Rows {
    float* floats;
    uint64_t n_floats;
    bp_dtype dtype;
  };
  [[nodiscard]] Rows rows(uint32_t slot, bool is_value, int32_t block) const;

  std::vector<Layer> layers_;  // of each slot
  std::vector<uint32_t> n_blocks_;
  uint32_t n_groups_;
  uint32_t block_size_;
  bp_dtype k_dtype_, v_dtype_;
};

}  // namespace bp::reference
