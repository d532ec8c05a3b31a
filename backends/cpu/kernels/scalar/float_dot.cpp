#include "backends/cpu/kernels/simd_scalar.hpp"
// clang-format keeps what defines the lanes first.
#include "backends/cpu/kernels/whole_lanes.inl"
// clang-format keeps what it multiplies by before the products.
#include "backends/cpu/kernels/float_dot.inl"
