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

// Of 32 values; NaN where one of them is.
inline BlockScale block_scale(F32x16 low, F32x16 high) {
  const int32_t bits = reduce_max(max(magnitude_bits(low), magnitude_bits(high)));
  float largest;
  __builtin_memcpy(&largest, &bits, sizeof largest);
  if (largest < kTiny) return {0, 0};
  return {largest / 127.0f, 127.0f / largest};
}

}  // namespace
}  // namespace bp::cpu::BP_CPU_ISA
