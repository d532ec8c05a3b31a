#pragma once
// Little-endian stores into the bytes of a block, and the packings that several types share.

#include <bit>
#include <cstdint>
#include <cstring>

#include "backplane/half.hpp"

namespace bp::quantize {

static_assert(std::endian::native == std::endian::little,
              "blocks are written as they lie in the file");

template <class T>
void store(uint8_t* bytes, T value) {
  std::memcpy(bytes, &value, sizeof value);
}

// The nearest number of f16 that is finite.
[[nodiscard]] inline float round_to_f16(float value) {
  constexpr float kLargest = 65504.0f;
  const float above = value < -kLargest ? -kLargest : value;
  return f16_to_f32(f32_to_f16(above > kLargest ? kLargest : above));
}

inline void store_f16(uint8_t* bytes, float value) {
  store(bytes, f32_to_f16(round_to_f16(value)));
}

constexpr float kTiny = 1e-30f;  // below it values count as zero

[[nodiscard]] inline float inverse(float scale) {
  return scale < kTiny && scale > -kTiny ? 0.0f : 1.0f / scale;
}

// The lower four bits: byte j of n / 2 holds element j in its low and element j + n / 2 in its high
// half.
inline void store_nibbles(const uint8_t* quants, int n, uint8_t* bytes) {
  for (int j = 0; j < n / 2; ++j) {
    bytes[j] = static_cast<uint8_t>((quants[j] & 0xf) | (quants[j + n / 2] & 0xf) << 4);
  }
}

// Two bits of 256 elements in 64 bytes: in each half of 128 elements, byte l (of 32) holds elements
// l, l + 32, l + 64 and l + 96, lowest bits first.
inline void store_two_bits(const uint8_t* quants, uint8_t* bytes) {
  for (int half = 0; half < 2; ++half) {
    for (int l = 0; l < 32; ++l) {
      const uint8_t* q = quants + 128 * half + l;
      bytes[32 * half + l] =
          static_cast<uint8_t>((q[0] & 3) | (q[32] & 3) << 2 | (q[64] & 3) << 4 | (q[96] & 3) << 6);
    }
  }
}

}  // namespace bp::quantize
