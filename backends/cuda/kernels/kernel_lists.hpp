#pragma once
// The kernels of each file that shares a family of types with others; product.cpp
// and flash.cpp ask all of them.

#include "backends/cuda/kernels/attend.hpp"
#include "backends/cuda/kernels/product.hpp"

namespace bp::cuda {

[[nodiscard]] ProductsKernel packed_rows_kernel_a(bp_dtype dtype, uint32_t n_rows);
[[nodiscard]] ProductsKernel packed_rows_kernel_b(bp_dtype dtype, uint32_t n_rows);
[[nodiscard]] ProductsKernel tile_kernel_a(bp_dtype dtype);
[[nodiscard]] ProductsKernel tile_kernel_b(bp_dtype dtype);
[[nodiscard]] ProductsKernel byte_tile_kernel_a(bp_dtype dtype);
[[nodiscard]] ProductsKernel byte_tile_kernel_b(bp_dtype dtype);
[[nodiscard]] ProductsKernel tile_kernel_of_floats(bp_dtype dtype);
[[nodiscard]] Kernel<AttendParams> flash_kernel_of_halves(const AttendParams& p);
[[nodiscard]] Kernel<AttendParams> flash_kernel_of_bytes(const AttendParams& p);
[[nodiscard]] Kernel<AttendParams> flash_kernel_of_mixed(const AttendParams& p);

}  // namespace bp::cuda
