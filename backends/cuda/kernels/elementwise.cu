#include "backends/cuda/kernels/elementwise.cuh"

namespace bp::cuda {

namespace {

__global__ void __launch_bounds__(256) map(const __grid_constant__ ElementwiseParams p) {
  begin_in_order();
  const uint64_t row = blockIdx.x;
  const uint32_t end = min(p.width, (blockIdx.y + 1) * 1024);
  for (uint32_t i = blockIdx.y * 1024 + threadIdx.x; i < end; i += 256) {
    float b = 0;
    if (p.b.data != nullptr) b = p.b.data[row * p.b.stride + i];
    if (p.repeated != nullptr) b = p.repeated[i % p.n_repeated];
    p.y.data[row * p.y.stride + i] = compute(p, p.a.data[row * p.a.stride + i], b);
  }
}

}  // namespace

Kernel<ElementwiseParams> elementwise_kernel() {
  return {"map", map};
}

}  // namespace bp::cuda
