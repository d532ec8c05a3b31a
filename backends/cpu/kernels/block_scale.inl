// The scale of 8-bit integers that share one.
#pragma once

namespace bp::cpu::BP_CPU_ISA {
namespace {

// Below this magnitude a block counts as zeros: 127 over it would overflow.
constexpr float kTiny = 0x1p-100f;

struct BlockScale {
  float scale;    // x = scale * q
  float inverse;  // q = x * inverse
};

// For q up to `most`; NaN where a value is, as their magnitude_bits say.
inline BlockScale scale_to(float most, I32x16 magnitudes) {
  const int32_t bits = reduce_max(magnitudes);
  float largest;
  __builtin_memcpy(&largest, &bits, sizeof largest);
  if (largest < kTiny) return {0, 0};
  return {largest / most, most / largest};
}

// Of a lane each, whose largest magnitudes, not negative, are `largest`.
struct BlockScales {
  F32x16 scale, inverse;
};
inline BlockScales scales_to(float most, F32x16 largest) {
  const auto unless_tiny = [&](F32x16 x) {
    return where_less(largest, broadcast(kTiny), zero(), x);
  };
  return {unless_tiny(div(largest, broadcast(most))), unless_tiny(div(broadcast(most), largest))};
}

// Of 32 values.
inline BlockScale block_scale(F32x16 low, F32x16 high) {
  return scale_to(127.0f, max(magnitude_bits(low), magnitude_bits(high)));
}

}  // namespace
}  // namespace bp::cpu::BP_CPU_ISA
