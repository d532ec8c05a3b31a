// Query rows in fours, whose sums fit into registers.
#pragma once

#include <type_traits>

namespace bp::cpu::BP_CPU_ISA {
namespace {

constexpr uint32_t kFewRows = 4;
constexpr int32_t kInfinityBits = 0x7f800000;  // of a float

// Vectors of 16 positions or columns whose sums for M rows fit into registers, and are enough not
// to wait for one another.
template <uint32_t M>
constexpr uint32_t kVectorsOfRows = kManyRegisters ? 4
                                    : M == 1       ? 4
                                    : M == 2       ? 2
                                                   : 1;

// Calls f(first row, integral_constant of 1 to 4 rows) until n_rows are done.
template <class F>
inline void for_few_rows(uint32_t n_rows, F&& f) {
  uint32_t row = 0;
  for (; row + kFewRows <= n_rows; row += kFewRows) {
    f(row, std::integral_constant<uint32_t, kFewRows>());
  }
  switch (n_rows - row) {
    case 1:
      return f(row, std::integral_constant<uint32_t, 1>());
    case 2:
      return f(row, std::integral_constant<uint32_t, 2>());
    case 3:
      return f(row, std::integral_constant<uint32_t, 3>());
    default:
      return;
  }
}

}  // namespace
}  // namespace bp::cpu::BP_CPU_ISA
