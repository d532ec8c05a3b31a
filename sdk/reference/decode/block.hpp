#pragma once
// Unaligned little-endian loads from the bytes of a block.

#include <bit>
#include <cstdint>
#include <cstring>

#include "backplane/half.hpp"

namespace bp::reference {

static_assert(std::endian::native == std::endian::little,
              "blocks are read as they lie in the file");

template <class T>
[[nodiscard]] inline T load(const uint8_t* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

[[nodiscard]] inline float load_f16(const uint8_t* bytes) {
  return f16_to_f32(load<uint16_t>(bytes));
}

}  // namespace bp::reference
