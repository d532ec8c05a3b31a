#include "backends/cuda/kernels/prepare.hpp"

#include "backends/cuda/kernels/elementwise.cuh"
#include "backends/cuda/kernels/prepare.cuh"

namespace bp::cuda {

namespace {

// A thread for each run of 16 columns.
__global__ void __launch_bounds__(128) prepare(const __grid_constant__ PrepareParams p) {
  begin_in_order();
  const uint32_t row = blockIdx.x / p.n_parts, part = blockIdx.x % p.n_parts;
  const ElementwiseParams& e = p.x;
  const float* a = e.a.data + static_cast<uint64_t>(row) * e.a.stride + part * p.n_in;
  const float* b = e.b.data;
  if (b != nullptr) b += static_cast<uint64_t>(row) * e.b.stride + part * p.n_in;
  uint8_t* out = p.out.data + static_cast<uint64_t>(blockIdx.x) * p.out.stride_bytes;
  const uint32_t first = (blockIdx.y * 128 + threadIdx.x) * kRunOfBytes;
  if (first >= columns_of_form(p.form, p.n_in)) return;
  float values[16], others[16];
  read_run(a, first, p.n_in, values);
  if (b != nullptr) {
    read_run(b, first, p.n_in, others);
    BP_UNROLL
    for (uint32_t i = 0; i < 16; ++i) {
      if (first + i < p.n_in) values[i] = compute(e, values[i], others[i]);
    }
  }
  write_run(p.form, values, out, p.n_in, first);
}

// Four columns from `first` on, a or a and b combined; zeros behind the last one.
__device__ __forceinline__ void read_four(const ElementwiseParams& e, uint32_t row, uint32_t first,
                                          uint32_t n_in, float (&values)[4]) {
  const float* a = e.a.data + static_cast<uint64_t>(row) * e.a.stride;
  const float* b = e.b.data;
  if (b != nullptr) b += static_cast<uint64_t>(row) * e.b.stride;
  for (uint32_t i = 0; i < 4; ++i) {
    const uint32_t at = first + i;
    values[i] = at >= n_in ? 0 : b == nullptr ? a[at] : compute(e, a[at], b[at]);
  }
}

// A row for each block: its largest value becomes 448. The scale is a NaN where one of them is NaN
// or infinite.
__global__ void __launch_bounds__(256) prepare_fp8(const __grid_constant__ PrepareParams p) {
  begin_in_order();
  constexpr float kLargestE4m3 = 448;
  __shared__ float of_warps[8];
  const uint32_t row = blockIdx.x;
  float values[4];
  float largest = 0;
  for (uint32_t first = 4 * threadIdx.x; first < p.n_in; first += 4 * blockDim.x) {
    read_four(p.x, row, first, p.n_in, values);
    for (uint32_t i = 0; i < 4; ++i) {
      const float size = fabsf(values[i]);
      largest = fmaxf(largest, size <= kLargestFloat ? size : INFINITY);
    }
  }
  largest = warp_max(largest);
  if (lane_index() == 0) of_warps[warp_index()] = largest;
  __syncthreads();
  for (uint32_t w = 0; w < blockDim.x / kWarp; ++w) largest = fmaxf(largest, of_warps[w]);
  const bool is_finite = largest <= kLargestFloat;
  const float scale = is_finite ? largest / kLargestE4m3 : __uint_as_float(0x7fc00000u);
  const float inverse = is_finite && scale >= 1.17549435e-38f ? 1 / scale : 0;
  if (threadIdx.x == 0) p.scales[row] = scale;
  auto* const out =
      reinterpret_cast<uint32_t*>(p.out.data + static_cast<uint64_t>(row) * p.out.stride_bytes);
  for (uint32_t first = 4 * threadIdx.x; first < p.out.stride_bytes; first += 4 * blockDim.x) {
    read_four(p.x, row, first, p.n_in, values);
    uint32_t word = 0;
    for (uint32_t i = 0; i < 4; ++i) {
      const float value = is_finite ? values[i] * inverse : 0;
      word |= static_cast<uint32_t>(e4m3_bits(value)) << (8 * i);
    }
    out[first / 4] = word;
  }
}

}  // namespace

Kernel<PrepareParams> prepare_kernel() {
  return {"prepare", prepare};
}

Kernel<PrepareParams> prepare_fp8_kernel() {
  return {"prepare_fp8", prepare_fp8};
}

}  // namespace bp::cuda
