#pragma once

#include "backends/cuda/kernels/activation.hpp"
#include "backends/cuda/kernels/simt.cuh"
#include "backplane/ops.h"

namespace bp::cuda {

__device__ __forceinline__ float sigmoid(float x) {
  return 1 / (1 + expf(-x));
}

__device__ __forceinline__ float soft_cap(float cap, float x) {
  return cap * tanhf(x / cap);
}

// Comparisons are written so that a NaN stays one.
__device__ __forceinline__ float activate(uint32_t activation, float x) {
  switch (activation) {
    case BP_ACT_SILU:
      return x / (1 + expf(-x));
    case BP_ACT_GELU:
      return 0.5f * x * (1 + erff(x * 0.70710678f));
    case BP_ACT_GELU_TANH:
      return 0.5f * x * (1 + tanhf(0.79788456f * (x + 0.044715f * x * x * x)));
    case BP_ACT_RELU:
      return x < 0 ? 0 : x;
    case BP_ACT_RELU2:
      return x < 0 ? 0 : x * x;
    case BP_ACT_SIGMOID:
      return sigmoid(x);
    case BP_ACT_TANH:
      return tanhf(x);
    default:
      return x;
  }
}

__device__ __forceinline__ float finish(const Epilogue& e, float sum, uint32_t column) {
  float y = sum;
  if (e.bias != nullptr) y += e.bias[column];
  y *= e.scale;
  if (e.softcap != 0) y = soft_cap(e.softcap, y);
  return activate(e.activation, y);
}

}  // namespace bp::cuda
