#include "backends/cuda/kernels/rotate.hpp"

#include "backends/cuda/kernels/simt.cuh"

namespace bp::cuda {

namespace {

// Angles of far positions have few digits left in float32 after whole turns.
__device__ __forceinline__ float angle_of(int32_t position, float inv_freq) {
  constexpr double kTurn = 6.283185307179586;
  const double angle = static_cast<double>(position) * static_cast<double>(inv_freq);
  return static_cast<float>(angle - kTurn * floor(angle / kTurn));
}

// A thread turns its pair in all heads.
__global__ void __launch_bounds__(128) rotate(RotateParams p) {
  const uint64_t t = blockIdx.x;
  const RotateParams::Part part = blockIdx.y == 0 ? p.parts[0] : p.parts[1];
  const float* x = part.x.data + t * part.x.stride;
  float* y = part.y.data + t * part.y.stride;
  const uint32_t n_pairs = p.n_dims / 2;
  for (uint32_t i = threadIdx.x; i < n_pairs; i += blockDim.x) {
    const float angle = angle_of(p.step->positions[t], p.inv_freq[i]);
    const float cosine = cosf(angle) * p.magnitude, sine = sinf(angle) * p.magnitude;
    const uint32_t a = p.in_halves != 0 ? i : 2 * i;
    const uint32_t b = p.in_halves != 0 ? i + n_pairs : 2 * i + 1;
    for (uint32_t head = 0; head < part.n_heads; ++head) {
      const float u = x[head * p.head_dim + a], v = x[head * p.head_dim + b];
      y[head * p.head_dim + a] = u * cosine - v * sine;
      y[head * p.head_dim + b] = u * sine + v * cosine;
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
