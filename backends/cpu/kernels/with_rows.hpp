#pragma once
// Numbers of rows that the compiler knows.

#include <cstdint>

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

}  // namespace
}  // namespace bp::cpu
