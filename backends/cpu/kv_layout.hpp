#pragma once
// Where the numbers of a position stand in one head of a block: what stores them, and what moves
// them to images and back, agree here. Bytes, from the head's first key or value.

#include <cstdint>

#include "backends/cpu/kernels/kv_tile.hpp"
#include "backends/cpu/round_up.hpp"

namespace bp::cpu {

inline constexpr uint32_t kKvLanes = 16;  // positions of keys, columns of values, side by side
inline constexpr uint32_t kValuePairElements = 2 * kKvLanes;

[[nodiscard]] constexpr bool is_quantised(KvType type) {
  return type == KvType::kQ8_0 || type == KvType::kQ4_0;
}

inline constexpr uint32_t kValueQuad = 4;  // positions of quantised values, side by side
inline constexpr uint32_t kValueQuadBytes = kValueQuad * kKvLanes;

// Of kKeyPositions positions' quantised keys, scales and words.
[[nodiscard]] constexpr uint64_t key_integers_bytes(KvType type, uint32_t head_dim) {
  const uint32_t word_dims = kKvScaleDims / key_words_of_scale(type);
  return uint64_t{(head_dim + kKvScaleDims - 1) / kKvScaleDims} * kKeyScaleBytes +
         uint64_t{(head_dim + word_dims - 1) / word_dims} * kKeyWordBytes;
}

// Of block_size positions.
[[nodiscard]] constexpr uint64_t key_bytes(KvType type, uint32_t head_dim, uint32_t block_size) {
  if (is_quantised(type)) return block_size / kKeyPositions * key_integers_bytes(type, head_dim);
  const uint64_t n = type == KvType::kBF16 ? round_up(head_dim, kKeyPairDims) : head_dim;
  return n * block_size * (type == KvType::kF32 ? sizeof(float) : sizeof(uint16_t));
}
[[nodiscard]] constexpr uint64_t value_step(KvType type, uint32_t stride) {
  constexpr uint64_t kHalfBytes[] = {8, 4, 4, 2, 1};
  return stride * kHalfBytes[static_cast<int>(type)] / 2;
}

// Of position `offset` of the block; what follows of it stands as the type wants.
[[nodiscard]] constexpr uint64_t key_offset(KvType type, uint32_t head_dim, uint32_t offset) {
  if (is_quantised(type)) {
    return offset / kKeyPositions * key_integers_bytes(type, head_dim) + kKeyScaleBytes +
           offset % kKeyPositions * sizeof(uint32_t);
  }
  if (type != KvType::kBF16) return key_bytes(type, 1, offset);
  const uint32_t lane = offset % kKvLanes;
  return key_bytes(type, head_dim, offset - lane) + lane * sizeof(uint32_t);
}
// Of its first scale; the next ones follow key_scale_step bytes apart.
[[nodiscard]] constexpr uint64_t key_scale_offset(KvType type, uint32_t head_dim, uint32_t offset) {
  return offset / kKeyPositions * key_integers_bytes(type, head_dim) +
         offset % kKeyPositions * sizeof(uint16_t);
}
[[nodiscard]] constexpr uint64_t value_offset(KvType type, uint32_t stride, uint32_t offset) {
  if (is_quantised(type)) {
    return uint64_t{offset / kValueQuad} * value_quad_bytes(type) + offset % kValueQuad;
  }
  const uint32_t in_half = type == KvType::kBF16 ? offset % kValuePairPositions : 0;
  return (offset - in_half) * value_step(type, stride) +
         (in_half / 2 * kValuePairElements + in_half % 2) * sizeof(uint16_t);
}
// Of a quantised value, from a scale's bytes to the next scale's.
[[nodiscard]] constexpr uint64_t value_scale_step(KvType type, uint32_t block_size) {
  return uint64_t{block_size / kValueQuad} * value_quad_bytes(type);
}

}  // namespace bp::cpu
