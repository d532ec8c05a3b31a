#pragma once
// The KV memory of one executable. Of a slot, a block holds for each KV head the keys [k_head_dim]
// [block_size], transposed so that scores need no sums across lanes, then the values [block_size]
// [v_head_dim rounded up to 16]. What neighbouring blocks hold of one head lies together, in runs
// of kRunPositions: [n_blocks / run][n_kv_heads][run], since memory is read faster in long pieces.
//
// Keys of bf16 are [block_size / 16][k_head_dim / 2][16][2], values [block_size / 32]
// [v_head_dim / 16][16][16][2], as kernel_table.hpp says.
//
// 8-bit keys are [k_head_dim / 4][block_size][4], 4-bit keys [k_head_dim / 8][block_size][4],
// rounded up; their scales [k_head_dim / 32][block_size] as f16 follow them. 8-bit values are
// [v_head_dim / 16][block_size / 4][16][4], four positions of a column side by side, 4-bit values
// [v_head_dim / 32][block_size / 4][16][4] with another 16 columns in the high halves of the bytes;
// their scales, [v_head_dim / 32][block_size], follow them.

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "backends/cpu/aligned_buffer.hpp"
#include "backends/cpu/kernels/kernel_table.hpp"
#include "backplane/batch.h"
#include "backplane/kv_images.hpp"
#include "backplane/program.h"
#include "backplane/status.hpp"

namespace bp::cpu {

inline constexpr uint32_t kDefaultBlockSize = 64;
inline constexpr uint32_t kRunPositions = 512;

// The proposed block size where kernels take it, a multiple of 32 up to 1024; else 64.
[[nodiscard]] uint32_t choose_block_size(uint32_t proposed);

class KvCache {
 public:
  KvCache(std::span<const bp_kv_slot> slots, uint32_t n_groups, uint32_t block_size, KvType k_type,
          KvType v_type);

  [[nodiscard]] uint32_t block_size() const { return block_size_; }
  [[nodiscard]] KvType k_type() const { return k_type_; }
  [[nodiscard]] KvType v_type() const { return v_type_; }
  [[nodiscard]] const bp_kv_slot& slot(uint32_t i) const { return slots_[i].shape; }
  [[nodiscard]] uint64_t block_bytes(uint32_t group) const;
  // Of one sequence of n_tokens, in all groups.
  [[nodiscard]] uint64_t bytes_of(uint64_t n_tokens) const;

  Status allocate(std::span<const uint32_t> n_blocks);
  [[nodiscard]] bool is_allocated() const { return !n_blocks_.empty() || n_groups_ == 0; }
  [[nodiscard]] std::span<const uint32_t> n_blocks() const { return n_blocks_; }

  // Precondition: indices are in range.
  void apply(const bp_block_op& op);

  // One KV head in the block of a sequence that holds a position.
  struct Place {
    const int32_t* blocks;  // of the sequence
    uint32_t head;
    uint32_t position;
  };

  // What a slot holds of the 64 positions from a place on; those outside [begin, end) of the
  // sequence are left out.
  [[nodiscard]] KvTile tile(uint32_t slot, const Place& first, uint32_t begin, uint32_t end) const;

  // The tile with values that accumulate_tile may read for positions [first, end) of it, though
  // some beside them are not finite; copy has room for a tile of bf16 values.
  [[nodiscard]] KvTile hide_values(const KvTile& tile, uint32_t first, uint32_t end,
                                   uint16_t* copy) const;

  // Bytes from what a slot holds at one place to the same at another.
  [[nodiscard]] ptrdiff_t distance(uint32_t slot, const Place& from, const Place& to) const;

  // Tells the caches that what a slot holds in a place's block is read soon.
  void prefetch(uint32_t slot, const Place& place) const;

  // Stores one head's key [k_head_dim] and value [v_head_dim] at a position of a block. Different
  // heads or positions may be stored from different threads.
  void store(const Kernels& kernels, uint32_t slot, uint32_t head, int32_t block, uint32_t offset,
             const float* key, const float* value);

  // kv_image.cpp: a block of a group as its image, and back.
  void export_block(const KvImages& images, uint32_t group, int32_t block, uint8_t* image) const;
  void import_block(const KvImages& images, uint32_t group, int32_t block, const uint8_t* image);

 private:
  struct Slot {
    bp_kv_slot shape;
    uint32_t value_stride;  // elements
    // Offsets within what a block holds of one head; keys are at 0.
    uint64_t key_scales;
    uint64_t values;
    uint64_t value_scales;
    uint64_t head_bytes;  // all of it
    uint64_t block_bytes;
    AlignedBuffer blocks;
  };

  // The last run may be shorter.
  [[nodiscard]] uint8_t* head(const Slot& slot, int32_t block, uint32_t head) const {
    const auto index = static_cast<uint32_t>(block);
    const uint32_t first = index / run_blocks_ * run_blocks_;
    const uint64_t n_run = std::min(run_blocks_, n_blocks_[slot.shape.group] - first);
    return slot.blocks.data() + first * slot.block_bytes +
           (head * n_run + (index - first)) * slot.head_bytes;
  }
  [[nodiscard]] uint8_t* head(const Slot& slot, const Place& place) const {
    return head(slot, place.blocks[place.position / block_size_], place.head);
  }

  // K or V of a slot's block, to rows [block_size, n_kv_heads] of an image or from them.
  template <bool kToImage>
  void move_rows(uint32_t slot, bool is_value, int32_t block, uint8_t* rows,
                 uint64_t row_bytes) const;

  // Keys and values of one head; to: where the head begins in its block.
  void store_key(const Kernels& kernels, const Slot& slot, uint8_t* to, uint32_t offset,
                 const float* key) const;
  void store_value(const Kernels& kernels, const Slot& slot, uint8_t* to, uint32_t offset,
                   const float* value) const;

  void store_key_integers(const Kernels& kernels, uint32_t n, uint8_t* keys, uint16_t* scales,
                          const float* key) const;
  static void store_key_pairs(const Kernels& kernels, uint32_t n, uint8_t* keys, const float* key);

  std::vector<Slot> slots_;
  uint32_t n_groups_;
  uint32_t block_size_;
  uint32_t run_blocks_;
  KvType k_type_;
  KvType v_type_;
  std::vector<uint32_t> n_blocks_;
};

}  // namespace bp::cpu
