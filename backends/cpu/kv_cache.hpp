#pragma once
// The KV memory of one executable. Of a slot, a block holds for each KV head the keys [k_head_dim]
// [block_size], transposed so that scores need no sums across lanes, then the values [block_size]
// [v_head_dim rounded up to 16]. What neighbouring blocks hold of one head lies together, in runs
// of kRunPositions, since memory is read faster in long pieces. A group's slots lie together too,
// so that a short context touches few huge pages: [n_blocks / run][n_slots][n_kv_heads][run].
//
// Keys of bf16 are [block_size / 16][k_head_dim / 2][16][2], values [block_size / 32]
// [v_head_dim / 16][16][16][2], as kernel_table.hpp says.
//
// Integers are as kKeyPositions says, with f16 scales: [block_size / 32] of those keys, the values'
// scales [v_head_dim / 32][block_size], [v_head_dim / 32] of those values, rounded up.
//
// Blocks of one tile whose positions are all written may be packed (PackedTile). What packed blocks
// of a run take lies together, so that it is read in one stream; the second half of a whole block's
// values lies behind that: [n_blocks / run][n_slots][n_kv_heads][first parts, second parts [run]].

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "backends/cpu/aligned_buffer.hpp"
#include "backends/cpu/divisor.hpp"
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
  // packer: whose kernels pack blocks, if they do; they outlive the cache.
  KvCache(std::span<const bp_kv_slot> slots, uint32_t n_groups, uint32_t block_size, KvType k_type,
          KvType v_type, const Kernels* packer = nullptr);

  [[nodiscard]] Divisor block_size() const { return block_size_; }
  [[nodiscard]] KvType k_type() const { return k_type_; }
  [[nodiscard]] KvType v_type() const { return v_type_; }
  [[nodiscard]] const bp_kv_slot& slot(uint32_t i) const { return slots_[i].shape; }
  [[nodiscard]] uint64_t block_bytes(uint32_t group) const { return groups_[group].block_bytes; }
  // What is read of a full block once it is packed; block_bytes where none is.
  [[nodiscard]] uint64_t packed_block_bytes(uint32_t group) const;
  // Of one sequence of n_tokens, in all groups.
  [[nodiscard]] uint64_t bytes_of(uint64_t n_tokens) const;

  Status allocate(std::span<const uint32_t> n_blocks);
  [[nodiscard]] bool is_allocated() const { return !n_blocks_.empty() || groups_.empty(); }
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

  // Tells the tile at a place where what is read after it lies.
  void look_ahead(uint32_t slot, const Place& from, const Place& next, KvTile& tile) const;

  // Tells the caches that what a slot holds in a place's block is read soon; where blocks are
  // packed no more than positions before `end` have of it.
  void prefetch(uint32_t slot, const Place& place, uint32_t end = UINT32_MAX) const;

  // What comes before the positions of a block from `offset` on are stored: it is packed no longer.
  void open(uint32_t slot, int32_t block, uint32_t offset);

  // Whether blocks of the slot are packed once they are full.
  [[nodiscard]] bool packs(uint32_t slot) const { return slots_[slot].packed_dims != 0; }
  // Of one head in a full block that nobody reads meanwhile. scratch: PackedTile::packed_bytes,
  // aligned to 64.
  void pack(uint32_t slot, uint32_t head, int32_t block, uint8_t* scratch);

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
    uint32_t packed_dims;   // 0: blocks are never packed
    // Offsets within what a block holds of one head; keys are at 0.
    uint64_t value_scales;
    uint64_t values;
    uint64_t head_bytes;    // all of it
    uint64_t first_bytes;   // of its first part
    uint64_t bytes_before;  // in a block, of its group's slots before this one
    // Where 16 positions each of a block that is not packed begin; of packing slots' values only
    // the first half.
    struct Lanes {
      uint64_t keys, key_scales, values, value_scales;
    };
    std::vector<Lanes> lanes;
    std::vector<uint8_t> is_packed;  // [n_blocks, n_kv_heads]
    [[nodiscard]] size_t index(int32_t block, uint32_t head) const {
      return static_cast<uint32_t>(block) * size_t{shape.n_kv_heads} + head;
    }
  };
  struct Group {
    uint64_t block_bytes = 0;  // of all its slots
    AlignedBuffer blocks;
  };
  // The two parts of one head in a block, the second one empty where blocks are not packed.
  struct Head {
    uint8_t* first;
    uint8_t* second;
  };

  // The last run may be shorter.
  [[nodiscard]] Head head(const Slot& slot, int32_t block, uint32_t head) const {
    const auto index = static_cast<uint32_t>(block);
    const uint32_t first = index / run_blocks_ * run_blocks_, nth = index - first;
    const uint64_t n_run = std::min<uint32_t>(run_blocks_, n_blocks_[slot.shape.group] - first);
    const Group& group = groups_[slot.shape.group];
    uint8_t* const run = group.blocks.data() + first * group.block_bytes +
                         n_run * (slot.bytes_before + head * slot.head_bytes);
    return {run + nth * slot.first_bytes,
            run + n_run * slot.first_bytes + nth * (slot.head_bytes - slot.first_bytes)};
  }
  [[nodiscard]] Head head(const Slot& slot, const Place& place) const {
    return head(slot, block_of(place), place.head);
  }
  [[nodiscard]] int32_t block_of(const Place& place) const {
    return place.blocks[place.position / block_size_];
  }
  [[nodiscard]] static bool is_packed(const Slot& slot, int32_t block, uint32_t head) {
    return slot.packed_dims != 0 && slot.is_packed[slot.index(block, head)] != 0;
  }
  [[nodiscard]] bool is_packed(const Slot& slot, const Place& place) const {
    return is_packed(slot, block_of(place), place.head);
  }
  // Where the value of a position of a block that is not packed begins.
  [[nodiscard]] uint8_t* value(const Slot& slot, const Head& at, uint32_t offset) const;
  // Bytes of keys and the first half of values, behind which the second one is in whole order.
  [[nodiscard]] uint64_t second_values(const Slot& slot) const;
  // A packed block's head as it was, first part and second; to: PackedTile::whole_bytes, aligned to
  // 64.
  void unpack(const Slot& slot, const Head& from, uint8_t* to) const;

  // K or V of a slot's block, to rows [block_size, n_kv_heads] of an image or from them; into a
  // block that is not packed.
  template <bool kToImage>
  void move_rows(uint32_t slot, bool is_value, int32_t block, uint8_t* rows,
                 uint64_t row_bytes) const;

  // Keys and values of one head; to: where its block has it.
  void store_key(const Kernels& kernels, const Slot& slot, uint8_t* to, uint32_t offset,
                 const float* key) const;
  void store_value(const Kernels& kernels, const Slot& slot, const Head& to, uint32_t offset,
                   const float* from) const;

  void store_key_integers(const Kernels& kernels, uint32_t n, uint8_t* keys, uint8_t* scales,
                          const float* key) const;
  static void store_key_pairs(const Kernels& kernels, uint32_t n, uint8_t* keys, const float* key);

  std::vector<Slot> slots_;
  std::vector<Group> groups_;
  Divisor block_size_;
  Divisor run_blocks_;
  KvType k_type_;
  KvType v_type_;
  const Kernels* packer_;
  std::vector<uint32_t> n_blocks_;
  AlignedBuffer whole_;  // a block's head, for open()
};

}  // namespace bp::cpu
