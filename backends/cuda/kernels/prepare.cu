#include "backends/cuda/kernels/prepare.hpp"

#include "backends/cuda/kernels/elementwise.cuh"
#include "backends/cuda/kernels/prepare.cuh"

namespace bp::cuda {

namespace {

// A thread for each run of 16 columns.
__global__ void __launch_bounds__(128) prepare(PrepareParams p) {
  const uint32_t row = blockIdx.x / p.n_parts, part = blockIdx.x % p.n_parts;
  const ElementwiseParams& e = p.x;
  const float* a = e.a.data + static_cast<uint64_t>(row) * e.a.stride + part * p.n_in;
  const float* b = e.b.data;
  if (b != nullptr) b += static_cast<uint64_t>(row) * e.b.stride + part * p.n_in;
  uint8_t* out = p.out.data + static_cast<uint64_t>(blockIdx.x) * p.out.stride_bytes;
  const uint32_t first = (blockIdx.y * 128 + threadIdx.x) * kRunOfBytes;
  if (first >= columns_of_form(p.form, p.n_in)) return;
  float values[16];
  BP_UNROLL
  for (uint32_t i = 0; i < 16; ++i) values[i] = first + i < p.n_in ? a[first + i] : 0;
  if (b != nullptr) {
    for (uint32_t i = 0; i < 16; ++i) {
      if (first + i < p.n_in) values[i] = compute(e, values[i], b[first + i]);
    }
  }
  write_run(p.form, values, out, p.n_in, first);
}

}  // namespace

Kernel<PrepareParams> prepare_kernel() {
  return {"prepare", prepare};
}

}  // namespace bp::cuda
