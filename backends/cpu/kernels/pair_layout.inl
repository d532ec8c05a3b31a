// Where keys and values of bf16 in pairs stand in a tile, and whether values are finite.
#pragma once

#include "backends/cpu/kernels/kv_tile.hpp"
#include "backends/cpu/kernels/lanes.inl"

namespace bp::cpu::BP_CPU_ISA {
namespace {

constexpr uint32_t kPairElements = 32;  // 16 lanes of two
constexpr uint32_t kHalfPairs = kValuePairPositions / 2;
constexpr uint32_t kHalfElements = kHalfPairs * kPairElements;  // of 16 columns

// The pair of dimensions that begins at 2 * pair, of 16 positions.
inline const uint16_t* key_pairs(const KvTile& tile, uint32_t group, uint32_t pair) {
  return static_cast<const uint16_t*>(tile.keys[group]) + size_t{pair} * kPairElements;
}

// The pair of positions that begins at 2 * pair, of columns [column, column + 16).
inline const uint16_t* value_pairs(const KvTile& tile, uint32_t pair, uint32_t column) {
  const auto* half = static_cast<const uint16_t*>(tile.values[pair / kHalfPairs * 2]);
  return half + size_t{column / 16} * kHalfElements + size_t{pair % kHalfPairs} * kPairElements;
}

// For kernels that read kPositions at once.
template <uint32_t kPositions>
bool values_finite_pairs(const KvTile& tile, uint32_t first, uint32_t end) {
  constexpr uint32_t kPairs = kPositions / 2;
  static_assert(kHalfPairs % kPairs == 0);
  I32x16 largest = broadcast_int(0);
  for (uint32_t pair = first / kPositions * kPairs; 2 * pair < end; pair += kPairs) {
    for (uint32_t c = 0; c < tile.value_stride; c += 16) {
      const uint16_t* v = value_pairs(tile, pair, c);
      for (uint32_t i = 0; i < kPairs; ++i) {
        const Bf16Pairs both = load_bf16_pairs(v + size_t{i} * kPairElements);
        largest = max(largest, max(magnitude_bits(both.even), magnitude_bits(both.odd)));
      }
    }
  }
  return reduce_max(largest) < kInfinityBits;
}

}  // namespace
}  // namespace bp::cpu::BP_CPU_ISA
