#include "backends/cpu/kv_cache.hpp"

#include <algorithm>
#include <cstring>

namespace bp::cpu {

namespace {

constexpr uint32_t kLanes = 16;
constexpr uint32_t kMaxBlockSize = 1024;

template <class Element>
void scatter(const Element* key, uint32_t n, uint32_t stride, uint8_t* to) {
  auto* out = reinterpret_cast<Element*>(to);
  for (uint32_t d = 0; d < n; ++d) out[size_t{d} * stride] = key[d];
}

}  // namespace

uint32_t choose_block_size(uint32_t proposed) {
  const bool usable = proposed > 0 && proposed % kLanes == 0 && proposed <= kMaxBlockSize;
  return usable ? proposed : kDefaultBlockSize;
}

KvCache::KvCache(std::span<const bp_kv_slot> slots, uint32_t n_groups, uint32_t block_size,
                 FloatType k_type, FloatType v_type)
    : n_groups_(n_groups), block_size_(block_size), k_type_(k_type), v_type_(v_type) {
  for (const bp_kv_slot& shape : slots) {
    Slot slot{};
    slot.shape = shape;
    slot.value_stride = (shape.v_head_dim + kLanes - 1) / kLanes * kLanes;
    slot.key_bytes = uint64_t{shape.k_head_dim} * block_size * float_bytes(k_type);
    slot.head_bytes =
        slot.key_bytes + uint64_t{block_size} * slot.value_stride * float_bytes(v_type);
    slot.block_bytes = shape.n_kv_heads * slot.head_bytes;
    slots_.push_back(std::move(slot));
  }
}

uint64_t KvCache::block_bytes(uint32_t group) const {
  uint64_t bytes = 0;
  for (const Slot& slot : slots_) bytes += slot.shape.group == group ? slot.block_bytes : 0;
  return bytes;
}

Status KvCache::allocate(std::span<const uint32_t> n_blocks) {
  if (!n_blocks_.empty()) return invalid_argument("KV memory is allocated already");
  if (n_blocks.size() != n_groups_) {
    return invalid_argument("block counts of " + std::to_string(n_blocks.size()) +
                            " KV groups were given, the program has " + std::to_string(n_groups_));
  }
  for (const uint32_t n : n_blocks) {
    if (n == 0) return invalid_argument("a KV group needs at least the null block");
  }
  std::vector<AlignedBuffer> made;
  for (const Slot& slot : slots_) {
    const uint64_t bytes = n_blocks[slot.shape.group] * slot.block_bytes;
    BP_ASSIGN(AlignedBuffer blocks, AlignedBuffer::allocate(bytes, "a KV slot", Pages::kSmall));
    made.push_back(std::move(blocks));
  }
  for (size_t i = 0; i < made.size(); ++i) slots_[i].blocks = std::move(made[i]);
  n_blocks_.assign(n_blocks.begin(), n_blocks.end());
  return {};
}

void KvCache::apply(const bp_block_op& op) {
  for (const Slot& slot : slots_) {
    if (slot.shape.group != op.index) continue;
    uint8_t* to = head(slot, op.destination, 0);
    if (op.action == BP_BLOCK_CLEAR) {
      std::memset(to, 0, slot.block_bytes);
    } else {
      std::memmove(to, head(slot, op.source, 0), slot.block_bytes);
    }
  }
}

KvTile KvCache::tile(uint32_t slot_index, uint32_t kv_head, const int32_t* blocks,
                     uint32_t first_position, uint32_t begin, uint32_t end) const {
  const Slot& slot = slots_[slot_index];
  const uint32_t from = std::max(begin, first_position) - first_position;
  const uint32_t to = std::min(end, first_position + kTilePositions) - first_position;
  KvTile tile{};
  tile.key_stride = block_size_;
  tile.value_stride = slot.value_stride;
  tile.first = from / kLanes;
  tile.end = (to + kLanes - 1) / kLanes;
  for (uint32_t g = tile.first; g < tile.end; ++g) {
    const uint32_t position = first_position + g * kLanes;
    const uint8_t* base = head(slot, blocks[position / block_size_], kv_head);
    const uint64_t offset = position % block_size_;
    tile.keys[g] = base + offset * float_bytes(k_type_);
    tile.values[g] = base + slot.key_bytes + offset * slot.value_stride * float_bytes(v_type_);
  }
  return tile;
}

void KvCache::store(const Kernels& kernels, uint32_t slot_index, uint32_t kv_head, int32_t block,
                    uint32_t offset, const float* key, const float* value) {
  const Slot& slot = slots_[slot_index];
  uint8_t* base = head(slot, block, kv_head);
  uint8_t* keys = base + offset * float_bytes(k_type_);
  const uint32_t n = slot.shape.k_head_dim;
  if (k_type_ == FloatType::kF32) {
    scatter(key, n, block_size_, keys);
  } else {
    uint16_t narrow[64];
    for (uint32_t d = 0; d < n; d += 64) {
      const uint32_t part = std::min(64u, n - d);
      kernels.from_f32[static_cast<int>(k_type_)](key + d, narrow, part);
      scatter(narrow, part, block_size_, keys + size_t{d} * block_size_ * sizeof(uint16_t));
    }
  }
  kernels.from_f32[static_cast<int>(v_type_)](
      value, base + slot.key_bytes + size_t{offset} * slot.value_stride * float_bytes(v_type_),
      slot.shape.v_head_dim);
}

}  // namespace bp::cpu
