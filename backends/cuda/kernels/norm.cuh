#pragma once
// The steps of a norm, in the same arithmetic for every kernel that has one.

#include "backends/cuda/kernels/norm.hpp"
#include "backends/cuda/kernels/simt.cuh"

namespace bp::cuda {

__device__ __forceinline__ float square_from(float x, float mean) {
  return (x - mean) * (x - mean);
}
__device__ __forceinline__ float norm_scale(float squares, float n, float eps) {
  return 1 / sqrtf(squares / n + eps);
}
__device__ __forceinline__ float weighted(float x, float weight, float offset) {
  return x * (weight + offset);
}

}  // namespace bp::cuda
