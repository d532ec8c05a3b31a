#pragma once
// Memory asked for at constant distances from what is read.

#include <cstddef>
#include <cstdint>

namespace bp::cpu {
namespace {

// Asks for the line at base + offset, a constant, into the cache of a level: 1 or 2. With the
// builtin gcc computes such addresses ahead of the loop and keeps them in vector registers: some
// twenty moves for a block of four rows, on the pipes that multiply. It also moves the builtin away
// from what it stands between.
template <int Level>
__attribute__((always_inline)) inline void prefetch(const void* base, size_t offset) {
  static_assert(Level == 1 || Level == 2);
  const auto* from = static_cast<const uint8_t*>(base);
#if defined(__x86_64__)
  asm("" : "+r"(from));
  if constexpr (Level == 1) {
    asm volatile("prefetcht0 %0" : : "m"(from[offset]));
  } else {
    asm volatile("prefetcht1 %0" : : "m"(from[offset]));
  }
#else
  __builtin_prefetch(from + offset, 0, 4 - Level);
#endif
}

}  // namespace
}  // namespace bp::cpu
