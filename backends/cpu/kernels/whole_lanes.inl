// Products of floats by all lanes at once; avx2/half_lanes.hpp has the same in two parts.
#pragma once

namespace bp::cpu::BP_CPU_ISA {
namespace {

inline constexpr uint32_t kLaneParts = 1;
template <uint32_t>
inline F32x16 part(F32x16 x) {
  return x;
}
template <uint32_t>
inline F32x16 shared_part(F32x16 x) {
  return x;
}
template <uint32_t>
inline void add_product(F32x16& sum, F32x16 x, F32x16 y) {
  sum = fma(x, y, sum);
}

}  // namespace
}  // namespace bp::cpu::BP_CPU_ISA
