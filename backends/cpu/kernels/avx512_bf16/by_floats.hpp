#pragma once
// Which way products of bf16 go.

#include "backends/cpu/kernels/kernel_table.hpp"

namespace bp::cpu::avx512_bf16 {

// Intel's processors multiply four vectors of floats in the time of one vdpbf16ps. The latter
// rounds after each of its two products, the second element's first; so do floats, which gives the
// same sums as long as nothing is subnormal.
template <Tuning T>
inline constexpr bool kByFloats = T == Tuning::kIntel;

}  // namespace bp::cpu::avx512_bf16
