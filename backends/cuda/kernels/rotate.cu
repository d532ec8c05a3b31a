#include "backends/cuda/kernels/rotate.cuh"

namespace bp::cuda {

namespace {

// A thread turns its pair in all heads.
__global__ void __launch_bounds__(128) rotate(const __grid_constant__ RotateParams p) {
  begin_in_order();
  const uint64_t t = blockIdx.x;
  const RotateParams::Part& part = p.parts[blockIdx.y];
  const float* x = part.x.data + t * part.x.stride;
  float* y = part.y.data + t * part.y.stride;
  const uint32_t n_pairs = p.rotation.n_dims / 2;
  for (uint32_t i = threadIdx.x; i < n_pairs; i += blockDim.x) {
    const Phase phase = phase_of(p.rotation, p.step->positions[t], i);
    for (uint32_t head = 0; head < part.n_heads; ++head) {
      turn_pair(p.rotation, phase, i, x + head * p.head_dim, y + head * p.head_dim);
    }
  }
  const uint32_t n_kept = p.head_dim - 2 * n_pairs;
  for (uint32_t i = threadIdx.x; i < part.n_heads * n_kept; i += blockDim.x) {
    const uint32_t column = i / n_kept * p.head_dim + 2 * n_pairs + i % n_kept;
    y[column] = x[column];
  }
}

}  // namespace

Kernel<RotateParams> rotate_kernel() {
  return {"rotate", rotate};
}

}  // namespace bp::cuda
