#pragma once
// Numbers of rows that the compiler knows.

#include <cstdint>

#include "backends/cpu/kernels/unroll.hpp"

namespace bp::cpu {
namespace {

template <uint32_t N>
struct Rows {
  static constexpr uint32_t kRows = N;
};
// Calls f with Rows<n>, 1 <= n <= Most.
template <uint32_t Most, class F>
__attribute__((always_inline)) inline void with_rows(uint32_t n, F&& f) {
  if constexpr (Most > 0) {
    if (n == Most) return f(Rows<Most>{});
    with_rows<Most - 1>(n, f);
  }
}

// Calls f(r, n) for each sum of R times N that registers hold.
template <uint32_t R, uint32_t N, class F>
__attribute__((always_inline)) inline void for_sums(F&& f) {
  BP_UNROLL for (uint32_t r = 0; r < R; ++r) {
    BP_UNROLL for (uint32_t n = 0; n < N; ++n) f(r, n);
  }
}

}  // namespace
}  // namespace bp::cpu
