#include "backends/cuda/kernels/product.hpp"

#include "backends/cuda/kernels/activation.cuh"
#include "backends/cuda/kernels/formats/all.cuh"

namespace bp::cuda {

namespace {

// Lane l adds up the products of columns 8 * (l + 32 * i), all eight in order. What lies behind the
// last column of x is not read: it may be a NaN.
__device__ __forceinline__ float add_products(float sum, const float* x, const Eight& w,
                                              uint32_t first, uint32_t n) {
  if (first + 8 <= n) {
    const float4 a = *reinterpret_cast<const float4*>(x + first);
    const float4 b = *reinterpret_cast<const float4*>(x + first + 4);
    sum = sum + a.x * w[0] + a.y * w[1] + a.z * w[2] + a.w * w[3];
    return sum + b.x * w[4] + b.y * w[5] + b.z * w[6] + b.w * w[7];
  }
  for (uint32_t i = 0; first + i < n; ++i) sum += x[first + i] * w[i];
  return sum;
}

template <class F, uint32_t kRows>
__global__ void __launch_bounds__(kProductWarps* kWarp) product(ProductParams p) {
  const uint32_t column = blockIdx.x * kProductWarps + warp_index();
  if (column >= p.n_columns) return;
  const uint32_t first_row = blockIdx.y * kRows, n_left = p.n_rows - first_row;
  const uint32_t n_rows = n_left < kRows ? n_left : kRows;
  const uint8_t* weight =
      p.weight.data + static_cast<uint64_t>(p.first_column + column) * p.weight.row_bytes;
  const float* x = p.x.data + static_cast<uint64_t>(first_row) * p.x.stride;
  float sums[kRows] = {};
  const uint32_t n_groups = (p.weight.n_columns + 7) / 8;
  for (uint32_t group = lane_index(); group < n_groups; group += kWarp) {
    Eight w;
    read_group<F>(weight, group, p.weight.grid, w);
    BP_UNROLL
    for (uint32_t r = 0; r < kRows; ++r) {
      if (r >= n_rows) break;
      sums[r] = add_products(sums[r], x + static_cast<uint64_t>(r) * p.x.stride, w, 8 * group,
                             p.weight.n_columns);
    }
  }
  const float sum = warp_sums(sums);
  const uint32_t r = index_of_sum<kRows>();
  if (r >= n_rows || lane_index() % (kWarp / kRows) != 0) return;
  float* y = p.y.data + static_cast<uint64_t>(first_row + r) * p.y.stride;
  y[column] = finish(p.epilogue, sum, column);
}

// The matrix that an id means; ids are cut to those there are.
__device__ __forceinline__ uint32_t matrix_of_id(float id, uint32_t n_matrices) {
  if (!(id > 0)) return 0;
  const auto last = static_cast<float>(n_matrices - 1);
  return static_cast<uint32_t>(id < last ? id : last);
}

template <class F>
__global__ void __launch_bounds__(kProductWarps* kWarp) group_product(GroupProductParams p) {
  const uint32_t column = blockIdx.y * kProductWarps + warp_index();
  if (column >= p.n_columns) return;
  const uint32_t row = blockIdx.x / p.n_groups, g = blockIdx.x % p.n_groups;
  const uint32_t matrix =
      p.ids.data == nullptr
          ? g
          : matrix_of_id(p.ids.data[static_cast<uint64_t>(row) * p.ids.stride + g], p.n_matrices);
  const uint64_t weight_row = static_cast<uint64_t>(matrix) * p.n_columns + column;
  const uint8_t* weight = p.weight.data + weight_row * p.weight.row_bytes;
  const uint32_t n_in = p.weight.n_columns;
  const float* x = p.x.data + static_cast<uint64_t>(row) * p.x.stride;
  if (p.x_is_shared == 0) x += g * n_in;
  // A part of x may begin anywhere.
  const bool is_aligned = p.x_is_shared != 0 || n_in % 4 == 0;
  float sum = 0;
  for (uint32_t group = lane_index(); group < (n_in + 7) / 8; group += kWarp) {
    Eight w;
    read_group<F>(weight, group, p.weight.grid, w);
    if (is_aligned) {
      sum = add_products(sum, x, w, 8 * group, n_in);
    } else {
      for (uint32_t i = 0; i < 8 && 8 * group + i < n_in; ++i) sum += x[8 * group + i] * w[i];
    }
  }
  sum = warp_sum(sum);
  if (lane_index() != 0) return;
  if (p.bias != nullptr) sum += p.bias[weight_row];
  p.y.data[static_cast<uint64_t>(row) * p.y.stride + g * p.n_columns + column] = sum;
}

}  // namespace

Kernel<ProductParams> product_kernel(bp_dtype dtype, uint32_t n_rows) {
  const bool is_one = product_rows_together(n_rows) == 1;
  switch (dtype) {
#define BP_CASE(NAME)                                                                    \
  case BP_DTYPE_##NAME:                                                                  \
    if (is_one) return {"product_" #NAME "_1_row", product<Format<BP_DTYPE_##NAME>, 1>}; \
    return {"product_" #NAME "_8_rows", product<Format<BP_DTYPE_##NAME>, 8>};
    BP_CUDA_FORMATS(BP_CASE)
#undef BP_CASE
    default:
      return {};
  }
}

Kernel<GroupProductParams> group_product_kernel(bp_dtype dtype) {
  switch (dtype) {
#define BP_CASE(NAME)   \
  case BP_DTYPE_##NAME: \
    return {"group_product_" #NAME, group_product<Format<BP_DTYPE_##NAME>>};
    BP_CUDA_FORMATS(BP_CASE)
#undef BP_CASE
    default:
      return {};
  }
}

}  // namespace bp::cuda
