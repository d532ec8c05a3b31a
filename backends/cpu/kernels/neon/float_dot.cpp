#include "backends/cpu/kernels/simd_neon.hpp"
// clang-format keeps what defines the lanes first.
#include "backends/cpu/kernels/float_dot.inl"
