// Where keys and values of bf16 in pairs stand in a tile.
#pragma once

#include "backends/cpu/kernels/kernel_table.hpp"

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

}  // namespace
}  // namespace bp::cpu::BP_CPU_ISA
