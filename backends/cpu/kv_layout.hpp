#pragma once
// Where the numbers of a position stand in one head of a block: what stores them, and what moves
// them to images and back, agree here. Bytes, from the head's first key or value.

#include <cstdint>

#include "backends/cpu/kernels/kernel_table.hpp"
#include "backends/cpu/round_up.hpp"

namespace bp::cpu {

inline constexpr uint32_t kKvLanes = 16;  // positions of keys, columns of values, side by side
inline constexpr uint32_t kValuePairElements = 2 * kKvLanes;

[[nodiscard]] constexpr bool is_quantised(KvType type) {
  return type == KvType::kQ8_0 || type == KvType::kQ4_0;
}

inline constexpr uint32_t kValueQuad = 4;  // positions of quantised values, side by side
inline constexpr uint32_t kValueQuadBytes = kValueQuad * kKvLanes;

// From one position to the next; of bf16 and of quantised values the average.
[[nodiscard]] constexpr uint64_t key_step(KvType type, uint32_t head_dim) {
  if (type == KvType::kBF16) return round_up(head_dim, kKeyPairDims) * sizeof(uint16_t);
  return type == KvType::kF16 ? 2 : 4;
}
[[nodiscard]] constexpr uint64_t value_step(KvType type, uint32_t stride) {
  constexpr uint64_t kHalfBytes[] = {8, 4, 4, 2, 1};
  return stride * kHalfBytes[static_cast<int>(type)] / 2;
}

// Of position `offset` of the block; what follows of it stands as the type wants.
[[nodiscard]] constexpr uint64_t key_offset(KvType type, uint32_t head_dim, uint32_t offset) {
  const uint32_t lane = type == KvType::kBF16 ? offset % kKvLanes : 0;
  return (offset - lane) * key_step(type, head_dim) + lane * sizeof(uint32_t);
}
[[nodiscard]] constexpr uint64_t value_offset(KvType type, uint32_t stride, uint32_t offset) {
  if (is_quantised(type)) {
    return uint64_t{offset / kValueQuad} * kValueQuadBytes + offset % kValueQuad;
  }
  const uint32_t in_half = type == KvType::kBF16 ? offset % kValuePairPositions : 0;
  return (offset - in_half) * value_step(type, stride) +
         (in_half / 2 * kValuePairElements + in_half % 2) * sizeof(uint16_t);
}
// Of a quantised value, from 16 bytes of it, an integer or two each, to the next 16.
[[nodiscard]] constexpr uint64_t value_bytes_step(uint32_t block_size) {
  return uint64_t{block_size / kValueQuad} * kValueQuadBytes;
}

}  // namespace bp::cpu
