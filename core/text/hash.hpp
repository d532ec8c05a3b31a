#pragma once
// A hash that is another one in each process: what files hold cannot be chosen to meet in one slot
// of a table.

#include <cstdint>
#include <random>

namespace bp::text {

inline const uint64_t kHashSeed = [] {
  std::random_device device;
  return uint64_t{device()} << 32 | device() | 1;
}();

// Both halves of a product: what differs in any bit differs in all.
[[nodiscard]] inline uint64_t mix_bits(uint64_t bits) {
  __extension__ typedef unsigned __int128 Product;
  const Product product = Product{bits ^ 0x9E3779B97F4A7C15} * kHashSeed;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

}  // namespace bp::text
