#include "backends/cpu/kernels/simd_avx2.hpp"
// clang-format keeps what defines the lanes first.
#include "backends/cpu/kernels/avx2/half_lanes.hpp"
// clang-format keeps what it multiplies by before the products.
#include "backends/cpu/kernels/float_dot.inl"
