#pragma once

#include "backends/cuda/kernels/activation.cuh"
#include "backends/cuda/kernels/elementwise.hpp"

namespace bp::cuda {

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

}  // namespace bp::cuda
