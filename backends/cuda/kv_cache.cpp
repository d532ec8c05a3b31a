#include "backends/cuda/kv_cache.hpp"

#include <algorithm>
#include <bit>

#include "backends/cuda/kernels/kv.hpp"

namespace bp::cuda {

namespace {

constexpr uint32_t kMinBlockSize = 16, kMaxBlockSize = 256, kDefaultBlockSize = 64;

KvPlane make_plane(uint32_t n_heads, uint32_t head_dim, uint32_t block_size, bp_dtype dtype) {
  KvPlane plane;
  plane.row_bytes = kv_row_bytes(dtype, head_dim);
  plane.head_dim = head_dim;
  plane.n_heads = n_heads;
  plane.block_size = block_size;
  plane.dtype = dtype;
  return plane;
}

uint64_t bytes_of_block(const KvPlane& plane) {
  return uint64_t{plane.n_heads} * plane.block_size * plane.row_bytes;
}

Status apply_to(Stream& stream, const KvPlane& plane, const bp_block_op& op) {
  const uint64_t n_bytes = bytes_of_block(plane);
  uint8_t* const to = plane.data + static_cast<uint64_t>(op.destination) * n_bytes;
  if (op.action == BP_BLOCK_CLEAR) return stream.fill(to, 0, n_bytes);
  if (op.source == op.destination) return {};
  return stream.copy_on_device(to, plane.data + static_cast<uint64_t>(op.source) * n_bytes,
                               n_bytes);
}

}  // namespace

uint32_t choose_block_size(uint32_t proposed) {
  if (proposed == 0) return kDefaultBlockSize;
  return std::clamp(std::bit_floor(proposed), kMinBlockSize, kMaxBlockSize);
}

KvCache::KvCache(std::span<const bp_kv_slot> slots, uint32_t n_groups, uint32_t block_size,
                 bp_dtype k_dtype, bp_dtype v_dtype)
    : n_groups_(n_groups), block_size_(block_size), k_dtype_(k_dtype), v_dtype_(v_dtype) {
  for (const bp_kv_slot& slot : slots) {
    layers_.push_back({slot.group,
                       make_plane(slot.n_kv_heads, slot.k_head_dim, block_size, k_dtype),
                       make_plane(slot.n_kv_heads, slot.v_head_dim, block_size, v_dtype)});
  }
}

uint64_t KvCache::block_bytes(uint32_t group) const {
  uint64_t n_bytes = 0;
  for (const Layer& layer : layers_) {
    if (layer.group == group) n_bytes += bytes_of_block(layer.k) + bytes_of_block(layer.v);
  }
  return n_bytes;
}

Status KvCache::allocate(Device& device, Stream& stream, std::span<const uint32_t> n_blocks) {
  if (n_blocks.size() != n_groups_) {
    return invalid_argument("block counts of " + std::to_string(n_blocks.size()) +
                            " KV groups were given, the program has " + std::to_string(n_groups_));
  }
  uint64_t n_bytes = 0;
  for (uint32_t g = 0; g < n_groups_; ++g) n_bytes += n_blocks[g] * block_bytes(g);
  BP_ASSIGN(memory_, device.allocate(MemoryKind::kDevice, n_bytes, "the KV cache"));
  if (n_bytes > 0) BP_TRY(stream.fill(memory_.data(), 0, n_bytes));
  uint8_t* at = memory_.data();
  for (Layer& layer : layers_) {
    for (KvPlane* plane : {&layer.k, &layer.v}) {
      plane->data = at;
      at += n_blocks[layer.group] * bytes_of_block(*plane);
    }
  }
  n_blocks_.assign(n_blocks.begin(), n_blocks.end());
  is_allocated_ = true;
  return {};
}

Status KvCache::apply(Stream& stream, const bp_block_op& op) const {
  for (const Layer& layer : layers_) {
    if (layer.group != op.index) continue;
    BP_TRY(apply_to(stream, layer.k, op));
    BP_TRY(apply_to(stream, layer.v, op));
  }
  return {};
}

}  // namespace bp::cuda
