#pragma once
// The constant tables of the IQ and FP4 block types. Entry values are packed one byte each, element
// j in byte j from the least significant.

#include <array>
#include <cstdint>

namespace bp::reference {

extern const std::array<uint64_t, 256> kIq2XxsGrid;  // 8 magnitudes
extern const std::array<uint64_t, 512> kIq2XsGrid;   // 8 magnitudes
extern const std::array<uint64_t, 1024> kIq2SGrid;   // 8 magnitudes
extern const std::array<uint64_t, 2048> kIq1Grid;    // 8 signed values: -1, 0, 1
extern const std::array<uint32_t, 256> kIq3XxsGrid;  // 4 magnitudes
extern const std::array<uint32_t, 512> kIq3SGrid;    // 4 magnitudes
extern const std::array<int8_t, 16> kIq4Values;      // non-linear 4-bit levels
extern const std::array<int8_t, 16> kFp4Values;      // twice the values of e2m1

// The sign bits (1: negative) of 8 elements from 7 stored ones: the eighth makes the number of
// negative elements even.
[[nodiscard]] constexpr uint8_t even_signs(uint32_t seven_bits) {
  uint32_t parity = seven_bits ^ (seven_bits >> 4);
  parity ^= parity >> 2;
  parity ^= parity >> 1;
  return static_cast<uint8_t>(seven_bits | (parity & 1) << 7);
}

}  // namespace bp::reference
