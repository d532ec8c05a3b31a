#include "backends/cpu/kv_cache.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "backends/cpu/kv_layout.hpp"

namespace bp::cpu {

namespace {

constexpr uint32_t kMaxBlockSize = 1024;

constexpr uint32_t kHalfPairs = kValuePairPositions / 2;

// Of one head and position.
uint64_t value_scales_bytes(KvType type, uint32_t head_dim) {
  if (!is_quantised(type)) return 0;
  return (head_dim + kKvScaleDims - 1) / kKvScaleDims * sizeof(uint16_t);
}

// Calls f(first dimension, n, q[32], scale) for the dimensions of each scale.
template <class F>
void quantize(const Kernels& kernels, KvType type, const float* x, uint32_t head_dim, bool is_key,
              F&& f) {
  for (uint32_t d = 0; d < head_dim; d += kKvScaleDims) {
    const uint32_t n = std::min(kKvScaleDims, head_dim - d);
    int8_t q[kKvScaleDims];
    uint16_t scale;
    kernels.quantize_kv[static_cast<int>(type)](x + d, n, is_key, q, &scale);
    f(d, n, q, scale);
  }
}

// Halves of bytes from two numbers of 4 bits each, plus 8.
uint8_t nibbles(int8_t low, int8_t high) {
  return static_cast<uint8_t>((low + 8) | (high + 8) << 4);
}

template <class Element>
void scatter(const Element* from, uint32_t n, uint32_t stride, uint8_t* to) {
  auto* out = reinterpret_cast<Element*>(to);
  for (uint32_t d = 0; d < n; ++d) out[size_t{d} * stride] = from[d];
}

}  // namespace

uint32_t choose_block_size(uint32_t proposed) {
  const bool usable =
      proposed > 0 && proposed % kValuePairPositions == 0 && proposed <= kMaxBlockSize;
  return usable ? proposed : kDefaultBlockSize;
}

KvCache::KvCache(std::span<const bp_kv_slot> slots, uint32_t n_groups, uint32_t block_size,
                 KvType k_type, KvType v_type, const Kernels* packer)
    : groups_(n_groups),
      block_size_(block_size),
      run_blocks_(std::max(1u, kRunPositions / block_size)),
      k_type_(k_type),
      v_type_(v_type),
      packer_(packer) {
  const bool packs = packer != nullptr && packer->pack_tile != nullptr && k_type == KvType::kBF16 &&
                     v_type == KvType::kBF16 && block_size == kTilePositions;
  for (const bp_kv_slot& shape : slots) {
    Slot slot{};
    slot.shape = shape;
    slot.value_stride = static_cast<uint32_t>(
        round_up(shape.v_head_dim, is_quantised(v_type) ? kKvScaleDims : kKvLanes));
    slot.value_scales = key_bytes(k_type, shape.k_head_dim, block_size);
    slot.values = slot.value_scales + block_size * value_scales_bytes(v_type, shape.v_head_dim);
    slot.head_bytes = slot.values + block_size * value_step(v_type, slot.value_stride);
    slot.first_bytes = slot.head_bytes;
    if (packs && PackedTile::takes(shape.k_head_dim, shape.v_head_dim)) {
      slot.packed_dims = shape.k_head_dim;
      slot.first_bytes = PackedTile::packed_bytes(shape.k_head_dim);
      slot.head_bytes =
          slot.first_bytes + kValuePairPositions * value_step(v_type, slot.value_stride);
    }
    Group& group = groups_[shape.group];
    slot.bytes_before = group.block_bytes;
    group.block_bytes += shape.n_kv_heads * slot.head_bytes;
    for (uint32_t offset = 0; offset < block_size; offset += kKvLanes) {
      slot.lanes.push_back({key_offset(k_type, shape.k_head_dim, offset),
                            key_scale_offset(k_type, shape.k_head_dim, offset),
                            slot.values + value_offset(v_type, slot.value_stride, offset),
                            slot.value_scales + offset * sizeof(uint16_t)});
    }
    slots_.push_back(std::move(slot));
  }
}

uint64_t KvCache::packed_block_bytes(uint32_t group) const {
  uint64_t bytes = 0;
  for (const Slot& slot : slots_) {
    if (slot.shape.group == group) bytes += slot.shape.n_kv_heads * slot.first_bytes;
  }
  return bytes;
}

uint64_t KvCache::bytes_of(uint64_t n_tokens) const {
  uint64_t bytes = 0;
  for (const Group& group : groups_) bytes += group.block_bytes;
  return (n_tokens + block_size_ - 1) / uint32_t{block_size_} * bytes;
}

Status KvCache::allocate(std::span<const uint32_t> n_blocks) {
  if (!n_blocks_.empty()) return invalid_argument("KV memory is allocated already");
  if (n_blocks.size() != groups_.size()) {
    return invalid_argument("block counts of " + std::to_string(n_blocks.size()) +
                            " KV groups were given, the program has " +
                            std::to_string(groups_.size()));
  }
  for (const uint32_t n : n_blocks) {
    if (n == 0) return invalid_argument("a KV group needs at least the null block");
  }
  std::vector<AlignedBuffer> made;
  for (size_t g = 0; g < groups_.size(); ++g) {
    const uint64_t bytes = n_blocks[g] * groups_[g].block_bytes;
    BP_ASSIGN(AlignedBuffer blocks, AlignedBuffer::allocate(bytes, "KV blocks"));
    made.push_back(std::move(blocks));
  }
  size_t whole_bytes = 0;
  for (const Slot& slot : slots_) {
    whole_bytes = std::max(whole_bytes, PackedTile::whole_bytes(slot.packed_dims));
  }
  if (whole_bytes > 0) {
    BP_ASSIGN(whole_, AlignedBuffer::allocate(whole_bytes, "a KV block"));
  }
  for (size_t g = 0; g < groups_.size(); ++g) groups_[g].blocks = std::move(made[g]);
  for (Slot& slot : slots_) {
    if (slot.packed_dims != 0) {
      slot.is_packed.resize(size_t{n_blocks[slot.shape.group]} * slot.shape.n_kv_heads);
    }
  }
  n_blocks_.assign(n_blocks.begin(), n_blocks.end());
  return {};
}

void KvCache::apply(const bp_block_op& op) {
  for (Slot& slot : slots_) {
    if (slot.shape.group != op.index) continue;
    const uint64_t second_bytes = slot.head_bytes - slot.first_bytes;
    for (uint32_t h = 0; h < slot.shape.n_kv_heads; ++h) {
      const Head to = head(slot, op.destination, h);
      const bool is_clear = op.action == BP_BLOCK_CLEAR;
      if (is_clear) {
        std::memset(to.first, 0, slot.first_bytes);
        std::memset(to.second, 0, second_bytes);
      } else {
        const Head from = head(slot, op.source, h);
        std::memmove(to.first, from.first, slot.first_bytes);
        std::memmove(to.second, from.second, second_bytes);
      }
      if (slot.packed_dims == 0) continue;
      slot.is_packed[slot.index(op.destination, h)] =
          is_clear ? 0 : slot.is_packed[slot.index(op.source, h)];
    }
  }
}

void KvCache::open(uint32_t slot_index, int32_t block, uint32_t offset) {
  Slot& slot = slots_[slot_index];
  for (uint32_t h = 0; slot.packed_dims != 0 && h < slot.shape.n_kv_heads; ++h) {
    uint8_t& is_packed = slot.is_packed[slot.index(block, h)];
    if (is_packed != 0 && offset > 0) {
      const Head at = head(slot, block, h);
      unpack(slot, at, whole_.data());
      std::memcpy(at.first, whole_.data(), second_values(slot));
      std::memcpy(at.second, whole_.data() + second_values(slot),
                  slot.head_bytes - slot.first_bytes);
    }
    is_packed = 0;
  }
}

void KvCache::unpack(const Slot& slot, const Head& from, uint8_t* to) const {
  KvTile tile{};
  tile.packed = {from.first, slot.packed_dims};
  packer_->unpack_tile(tile, reinterpret_cast<uint16_t*>(to));
}

// By way of memory of its own: whether it fits shows at the end.
void KvCache::pack(uint32_t slot_index, uint32_t h, int32_t block, uint8_t* scratch) {
  Slot& slot = slots_[slot_index];
  const Head at = head(slot, block, h);
  const KvTile whole = tile(slot_index, {&block, h, 0}, 0, kTilePositions);
  if (!packer_->pack_tile(whole, slot.packed_dims, scratch)) return;
  std::memcpy(at.first, scratch, slot.first_bytes);
  slot.is_packed[slot.index(block, h)] = 1;
}

uint64_t KvCache::second_values(const Slot& slot) const {
  return slot.values + kValuePairPositions * value_step(v_type_, slot.value_stride);
}

uint8_t* KvCache::value(const Slot& slot, const Head& at, uint32_t offset) const {
  const bool is_second = slot.packed_dims != 0 && offset >= kValuePairPositions;
  uint8_t* const values = is_second ? at.second : at.first + slot.values;
  return values + value_offset(v_type_, slot.value_stride,
                               is_second ? offset - kValuePairPositions : offset);
}

KvTile KvCache::tile(uint32_t slot_index, const Place& first, uint32_t begin, uint32_t end) const {
  const Slot& slot = slots_[slot_index];
  const uint32_t from = std::max(begin, first.position) - first.position;
  const uint32_t to = std::min(end, first.position + kTilePositions) - first.position;
  KvTile tile{};
  tile.block_size = block_size_;
  tile.value_stride = slot.value_stride;
  tile.first = from / kKvLanes;
  tile.end = (to + kKvLanes - 1) / kKvLanes;
  if (is_packed(slot, first)) {
    const Head at = head(slot, first);
    tile.packed = {at.first, slot.packed_dims};
    return tile;
  }
  const uint32_t g0 = tile.first / 2 * 2;  // values of bf16: even ones
  const Slot::Lanes *lanes = nullptr, *const lanes_end = slot.lanes.data() + slot.lanes.size();
  const uint8_t* block = nullptr;
  for (uint32_t g = g0; g < tile.end; ++g, ++lanes) {
    if (g == g0 || lanes == lanes_end) {
      const uint32_t position = first.position + g * kKvLanes;
      lanes = slot.lanes.data() + position % block_size_ / kKvLanes;
      block = head(slot, {first.blocks, first.head, position}).first;
    }
    tile.keys[g] = block + lanes->keys;
    tile.values[g] = block + lanes->values;
    tile.key_scales[g] = reinterpret_cast<const uint16_t*>(block + lanes->key_scales);
    tile.value_scales[g] = reinterpret_cast<const uint16_t*>(block + lanes->value_scales);
  }
  // Not beside the first half.
  if (slot.packed_dims != 0) tile.values[2] = head(slot, first).second;
  return tile;
}

void KvCache::look_ahead(uint32_t slot_index, const Place& from, const Place& next,
                         KvTile& tile) const {
  const Slot& slot = slots_[slot_index];
  const Head own = head(slot, from), others = head(slot, next);
  tile.ahead = tile.second_ahead = others.first - own.first;
  if (slot.packed_dims == 0) return;
  tile.packed_is_next = is_packed(slot, next);
  // Of a packed tile, what its keys' and the first values' place does not hold.
  tile.second_ahead =
      (tile.packed_is_next ? others.first + second_values(slot) : others.second) - own.second;
}

// Every line, since the hardware's own prefetch begins anew with each block and page; of what would
// push these out again, the first lines of each page.
void KvCache::prefetch(uint32_t slot_index, const Place& place, uint32_t end) const {
  constexpr uint64_t kLine = 64, kMostBytes = 64 << 10, kPage = 4096, kFirstBytes = 256;
  const Slot& slot = slots_[slot_index];
  const Head at = head(slot, place);
  const auto ask = [](const uint8_t* from, uint64_t n_bytes) {
    for (uint64_t i = 0; i < n_bytes; i += kLine) {
      if (i < kMostBytes || i % kPage < kFirstBytes) __builtin_prefetch(from + i);
    }
  };
  if (slot.packed_dims == 0 || is_packed(slot, place)) return ask(at.first, slot.first_bytes);
  const uint32_t begin = place.position / kTilePositions * kTilePositions;
  const uint32_t n = std::min(end - begin, kTilePositions);
  ask(at.first, key_bytes(k_type_, slot.shape.k_head_dim, round_up(n, kKvLanes)));
  for (uint32_t first = 0; first < n; first += kValuePairPositions) {
    const uint64_t n_pairs = (std::min(n - first, kValuePairPositions) + 1) / 2;
    for (uint32_t c = 0; c < slot.value_stride; c += kKvLanes) {
      ask(value(slot, at, first) + c * kValuePairPositions * sizeof(uint16_t),
          n_pairs * kValuePairElements * sizeof(uint16_t));
    }
  }
}

void KvCache::store(const Kernels& kernels, uint32_t slot_index, uint32_t kv_head, int32_t block,
                    uint32_t offset, const float* key, const float* value) {
  const Slot& slot = slots_[slot_index];
  const Head to = head(slot, block, kv_head);
  store_key(kernels, slot, to.first, offset, key);
  store_value(kernels, slot, to, offset, value);
}

void KvCache::store_key(const Kernels& kernels, const Slot& slot, uint8_t* to, uint32_t offset,
                        const float* key) const {
  const uint32_t n = slot.shape.k_head_dim;
  uint8_t* keys = to + key_offset(k_type_, n, offset);
  if (k_type_ == KvType::kBF16) return store_key_pairs(kernels, n, keys, key);
  if (k_type_ == KvType::kF32) return scatter(key, n, block_size_, keys);
  if (is_quantised(k_type_)) {
    return store_key_integers(kernels, n, keys, to + key_scale_offset(k_type_, n, offset), key);
  }
  uint16_t narrow[64];
  for (uint32_t d = 0; d < n; d += 64) {
    const uint32_t part = std::min(64u, n - d);
    kernels.from_f32[static_cast<int>(FloatType::kF16)](key + d, narrow, part);
    scatter(narrow, part, block_size_, keys + size_t{d} * block_size_ * sizeof(uint16_t));
  }
}

void KvCache::store_value(const Kernels& kernels, const Slot& slot, const Head& to, uint32_t offset,
                          const float* from) const {
  const uint32_t n = slot.shape.v_head_dim;
  uint8_t* values = value(slot, to, offset);
  if (v_type_ == KvType::kBF16) {
    return kernels.store_value_pairs(from, n, reinterpret_cast<uint16_t*>(values));
  }
  if (!is_quantised(v_type_)) {
    return kernels.from_f32[static_cast<int>(v_type_)](from, values, n);
  }
  auto* scales = reinterpret_cast<uint16_t*>(to.first + slot.value_scales) + offset;
  const uint64_t step = value_scale_step(v_type_, block_size_);
  quantize(kernels, v_type_, from, n, false,
           [&](uint32_t d, uint32_t part, const int8_t* q, uint16_t scale) {
             uint8_t bytes[kKvScaleDims];
             std::memcpy(bytes, q, sizeof bytes);
             uint32_t n_bytes = part;
             if (v_type_ == KvType::kQ4_0) {
               n_bytes = kKvScaleDims / 2;
               for (uint32_t i = 0; i < n_bytes; ++i) bytes[i] = nibbles(q[i], q[n_bytes + i]);
             }
             for (uint32_t i = 0; i < n_bytes; i += kKvLanes) {
               scatter(bytes + i, std::min(kKvLanes, n_bytes - i), kValueQuad,
                       values + i / kKvLanes * kValueQuadBytes);
             }
             values += step;
             scales[size_t{d} / kKvScaleDims * block_size_] = scale;
           });
}

void KvCache::store_key_integers(const Kernels& kernels, uint32_t n, uint8_t* keys, uint8_t* scales,
                                 const float* key) const {
  const uint32_t word_dims = kKvScaleDims / key_words_of_scale(k_type_);
  const uint32_t step = key_scale_step(k_type_);
  quantize(kernels, k_type_, key, n, true,
           [&](uint32_t, uint32_t part, const int8_t* q, uint16_t scale) {
             uint8_t bytes[kKvScaleDims];
             std::memcpy(bytes, q, sizeof bytes);
             for (uint32_t i = 0; word_dims == 8 && i < kKvScaleDims / 2; ++i) {
               const uint32_t low = i / 4 * 8 + i % 4;
               bytes[i] = nibbles(q[low], q[low + 4]);
             }
             int32_t words[kKvScaleDims / 4];
             std::memcpy(words, bytes, sizeof words);
             scatter(words, (part + word_dims - 1) / word_dims, kKeyPositions, keys);
             std::memcpy(scales, &scale, sizeof scale);
             keys += step;
             scales += step;
           });
}

void KvCache::store_key_pairs(const Kernels& kernels, uint32_t n, uint8_t* keys, const float* key) {
  auto* group = reinterpret_cast<uint32_t*>(keys);
  for (uint32_t d = 0; d < n; d += kKeyPairDims) {
    uint16_t narrow[kKeyPairDims] = {};
    kernels.from_f32[static_cast<int>(FloatType::kBF16)](key + d, narrow,
                                                         std::min(kKeyPairDims, n - d));
    uint32_t words[kKeyPairDims / 2];
    std::memcpy(words, narrow, sizeof words);
    for (uint32_t i = 0; i < kKeyPairDims / 2; ++i) group[size_t{d / 2 + i} * kKvLanes] = words[i];
  }
}

KvTile KvCache::hide_values(const KvTile& tile, uint32_t first, uint32_t end,
                            uint16_t* copy) const {
  if (v_type_ != KvType::kBF16) return tile;
  KvTile hidden = tile;
  const size_t half_elements = size_t{kValuePairPositions} * tile.value_stride;
  for (uint32_t p = first / kValuePairPositions * kValuePairPositions; p < end;
       p += kValuePairPositions) {
    std::memcpy(copy, tile.values[p / kKvLanes], half_elements * sizeof(uint16_t));
    for (uint32_t i = 0; i < kValuePairPositions; ++i) {
      if (p + i >= first && p + i < end) continue;
      for (uint32_t c = 0; c < tile.value_stride; ++c) {
        const size_t block = size_t{c / kKvLanes} * kHalfPairs + i / 2;
        copy[block * kValuePairElements + c % kKvLanes * 2 + i % 2] = 0;
      }
    }
    hidden.values[p / kKvLanes] = copy;
    copy += half_elements;
  }
  return hidden;
}

}  // namespace bp::cpu
