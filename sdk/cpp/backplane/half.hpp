#pragma once
// Scalar conversions between float and the narrow float types: f16, bf16, f8_e4m3 (the "fn" kind,
// no infinity), f8_e5m2 and the exponent-only e8m0. Narrowing rounds to nearest, ties to even.

#include <bit>
#include <cstdint>
#include <limits>

namespace bp {

namespace half_internal {

constexpr uint32_t kF32Infinity = 0x7f800000u;

[[nodiscard]] constexpr float power_of_two(int exponent) {
  return std::bit_cast<float>(static_cast<uint32_t>(exponent + 127) << 23);
}

// The magnitude bits (no sign, no infinity or NaN) of a float with E exponent and M mantissa bits.
template <int E, int M>
[[nodiscard]] constexpr float widen_magnitude(uint32_t bits) {
  constexpr int bias = (1 << (E - 1)) - 1;
  if (bits < (1u << M)) return static_cast<float>(bits) * power_of_two(1 - bias - M);
  return std::bit_cast<float>((bits << (23 - M)) + (static_cast<uint32_t>(127 - bias) << 23));
}

// Rounds the magnitude bits of a float (not NaN) to E exponent and M mantissa bits. What is too
// large becomes `overflow`.
template <int E, int M>
[[nodiscard]] constexpr uint32_t narrow_magnitude(uint32_t magnitude, uint32_t overflow) {
  constexpr int bias = (1 << (E - 1)) - 1;
  constexpr int shift = 23 - M;
  constexpr uint32_t min_normal = static_cast<uint32_t>(128 - bias) << 23;
  if (magnitude < min_normal) {
    // Adding a number whose unit in the last place is the smallest subnormal rounds to it.
    constexpr float magic = power_of_two(24 - bias - M);
    return std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + magic) -
           std::bit_cast<uint32_t>(magic);
  }
  const uint32_t rounded = magnitude + (1u << (shift - 1)) - 1 + ((magnitude >> shift) & 1);
  const uint32_t bits = (rounded >> shift) - (static_cast<uint32_t>(127 - bias) << M);
  return bits < overflow ? bits : overflow;
}

[[nodiscard]] constexpr float with_sign(float magnitude, bool negative) {
  return negative ? -magnitude : magnitude;
}

}  // namespace half_internal

[[nodiscard]] constexpr float f16_to_f32(uint16_t h) {
  const uint32_t magnitude = h & 0x7fffu;
  const uint32_t sign = static_cast<uint32_t>(h & 0x8000u) << 16;
  const uint32_t bits =
      magnitude >= 0x7c00u
          ? half_internal::kF32Infinity | (magnitude << 13)
          : std::bit_cast<uint32_t>(half_internal::widen_magnitude<5, 10>(magnitude));
  return std::bit_cast<float>(bits | sign);
}

// Overflow gives infinity; a NaN stays a NaN with its upper payload bits, made quiet.
[[nodiscard]] constexpr uint16_t f32_to_f16(float f) {
  const uint32_t bits = std::bit_cast<uint32_t>(f);
  const uint32_t magnitude = bits & 0x7fffffffu;
  const uint32_t sign = (bits >> 16) & 0x8000u;
  if (magnitude > half_internal::kF32Infinity) {
    return static_cast<uint16_t>(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
  }
  return static_cast<uint16_t>(sign | half_internal::narrow_magnitude<5, 10>(magnitude, 0x7c00u));
}

[[nodiscard]] constexpr float bf16_to_f32(uint16_t h) {
  return std::bit_cast<float>(static_cast<uint32_t>(h) << 16);
}

[[nodiscard]] constexpr uint16_t f32_to_bf16(float f) {
  const uint32_t bits = std::bit_cast<uint32_t>(f);
  if ((bits & 0x7fffffffu) > half_internal::kF32Infinity) {
    return static_cast<uint16_t>((bits >> 16) | 0x40u);
  }
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1)) >> 16);
}

[[nodiscard]] constexpr float f8_e4m3_to_f32(uint8_t b) {
  const uint32_t magnitude = b & 0x7fu;
  const float value = magnitude == 0x7fu ? std::numeric_limits<float>::quiet_NaN()
                                         : half_internal::widen_magnitude<4, 3>(magnitude);
  return half_internal::with_sign(value, (b & 0x80u) != 0);
}

// Overflow and infinity give the largest finite value, 448.
[[nodiscard]] constexpr uint8_t f32_to_f8_e4m3(float f) {
  const uint32_t bits = std::bit_cast<uint32_t>(f);
  const uint32_t magnitude = bits & 0x7fffffffu;
  const uint32_t sign = (bits >> 24) & 0x80u;
  if (magnitude > half_internal::kF32Infinity) return static_cast<uint8_t>(sign | 0x7fu);
  return static_cast<uint8_t>(sign | half_internal::narrow_magnitude<4, 3>(magnitude, 0x7eu));
}

[[nodiscard]] constexpr float f8_e5m2_to_f32(uint8_t b) {
  return f16_to_f32(static_cast<uint16_t>(b << 8));
}

// Overflow gives infinity.
[[nodiscard]] constexpr uint8_t f32_to_f8_e5m2(float f) {
  const uint32_t bits = std::bit_cast<uint32_t>(f);
  const uint32_t magnitude = bits & 0x7fffffffu;
  const uint32_t sign = (bits >> 24) & 0x80u;
  if (magnitude > half_internal::kF32Infinity) return static_cast<uint8_t>(sign | 0x7eu);
  return static_cast<uint8_t>(sign | half_internal::narrow_magnitude<5, 2>(magnitude, 0x7cu));
}

// 2^(b - 127); 255 is NaN.
[[nodiscard]] constexpr float e8m0_to_f32(uint8_t b) {
  if (b == 255) return std::numeric_limits<float>::quiet_NaN();
  return std::bit_cast<float>(b == 0 ? 0x00400000u : static_cast<uint32_t>(b) << 23);
}

// The nearest power of two of |f|, ties to the even exponent; 0 gives the smallest, overflow the
// largest finite one.
[[nodiscard]] constexpr uint8_t f32_to_e8m0(float f) {
  const uint32_t magnitude = std::bit_cast<uint32_t>(f) & 0x7fffffffu;
  if (magnitude > half_internal::kF32Infinity) return 255;
  const uint32_t exponent = magnitude >> 23;
  const uint32_t mantissa = magnitude & 0x7fffffu;
  // Halfway between 2^n and 2^(n+1) is 1.5 * 2^n; between 2^-127 and 2^-126 it is 0.75 * 2^-126.
  const uint32_t half = exponent == 0 ? 0x600000u : 0x400000u;
  const bool up = mantissa > half || (mantissa == half && (exponent & 1) != 0);
  const uint32_t rounded = exponent + (up ? 1 : 0);
  return static_cast<uint8_t>(rounded < 254 ? rounded : 254);
}

}  // namespace bp
