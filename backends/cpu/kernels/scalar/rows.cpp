#include "backends/cpu/kernels/simd_scalar.hpp"
// clang-format keeps what defines the lanes first.
#include "backends/cpu/kernels/rows.inl"
