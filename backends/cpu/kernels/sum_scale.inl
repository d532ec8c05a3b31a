// Sums of products of integers, which begin at kSumStart, and their scales.

#pragma once

namespace bp::cpu::BP_CPU_ISA {
namespace {

inline F32x16 value_of(I32x16 sum) {
  if constexpr (kSumStart == 0) return to_float(sum);
  return sub(float_of_bits(sum), broadcast(kSumStartValue));
}

// Multiplies sums by a scale, rounding once. Where what they began at is not subtracted first, the
// scale has 22 bits at most, so that its product with kSumStartValue is exact.
template <bool SubtractsStart = false>
class SumScale {
 public:
  explicit SumScale(F32x16 scale) : scale_(scale), rest_(mul(scale, broadcast(-kSumStartValue))) {}
  [[nodiscard]] F32x16 times(I32x16 sum) const {
    if constexpr (kSumStart == 0 || SubtractsStart) return mul(value_of(sum), scale_);
    return fma(float_of_bits(sum), scale_, rest_);
  }

 private:
  F32x16 scale_, rest_;
};

}  // namespace
}  // namespace bp::cpu::BP_CPU_ISA
