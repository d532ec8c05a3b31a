#pragma once
// Products of floats by halves of the lanes: all of them would take too many registers.

#include "backends/cpu/kernels/simd_avx2.hpp"

namespace bp::cpu::BP_CPU_ISA {
namespace {

inline constexpr uint32_t kLaneParts = 2;
template <uint32_t P>
inline __m256 part(F32x16 x) {
  return P == 0 ? x.a : x.b;
}
// That several products read: from a register, where gcc would load it for each.
template <uint32_t P>
inline __m256 shared_part(F32x16 x) {
  __m256 own = part<P>(x);
  asm("" : "+x"(own));
  return own;
}
template <uint32_t P>
inline void add_product(F32x16& sum, __m256 x, __m256 y) {
  __m256& own = P == 0 ? sum.a : sum.b;
  own = _mm256_fmadd_ps(x, y, own);
}

}  // namespace
}  // namespace bp::cpu::BP_CPU_ISA
