#include "backends/cuda/kernels/elementwise.hpp"

#include "backends/cuda/kernels/activation.cuh"

namespace bp::cuda {

namespace {

// Comparisons are written so that a NaN stays one.
__device__ __forceinline__ float at_most(float x, float high) {
  return x > high ? high : x;
}
__device__ __forceinline__ float at_least(float x, float low) {
  return x < low ? low : x;
}

__device__ __forceinline__ float compute(const ElementwiseParams& p, float a, float b) {
  switch (p.op) {
    case Elementwise::kAdd:
      return a + b;
    case Elementwise::kMultiply:
      return a * (b + p.p);
    case Elementwise::kScale:
      return a * p.p;
    case Elementwise::kActivate:
      return activate(p.activation, a);
    case Elementwise::kClamp:
      return at_most(at_least(a, p.p), p.q);
    case Elementwise::kSoftcap:
      return soft_cap(p.p, a);
    case Elementwise::kAddScaled:
      return b + p.p * a;
    case Elementwise::kGate:
      return activate(p.activation, a) * b;
    case Elementwise::kGateWithLimits: {
      const float g = at_most(a, p.p), u = at_most(at_least(b, -p.p), p.p);
      return g * sigmoid(p.q * g) * (u + 1);
    }
  }
  return a;
}

__global__ void __launch_bounds__(256) map(ElementwiseParams p) {
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
