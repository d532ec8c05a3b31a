// What kernels of attention ask the caches for while they go.
#pragma once

#include "backends/cpu/kernels/kernel_table.hpp"
#include "backends/cpu/kernels/unroll.hpp"

namespace bp::cpu::BP_CPU_ISA {
namespace {

// What takes the place of the kBytes at `from` in what is read after the tile. Inlined always: gcc
// drops a function that has no other effect.
template <uint32_t kBytes>
__attribute__((always_inline)) inline void ask_ahead(const KvTile& tile, const void* from) {
  constexpr uint32_t kLine = 64;
  BP_UNROLL for (uint32_t i = 0; i < kBytes; i += kLine) {
    __builtin_prefetch(static_cast<const uint8_t*>(from) + tile.ahead + i);
  }
}

}  // namespace
}  // namespace bp::cpu::BP_CPU_ISA
