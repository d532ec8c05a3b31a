#include "backends/cpu/kernels/simd_scalar.hpp"
// clang-format keeps what defines the lanes first.
#include "backends/cpu/kernels/float_dot.inl"
