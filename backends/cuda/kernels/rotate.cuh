#pragma once
// A rotation's pairs and angles, in the same arithmetic for every kernel that turns heads.

#include "backends/cuda/kernels/rotate.hpp"
#include "backends/cuda/kernels/simt.cuh"

namespace bp::cuda {

// Angles of far positions have few digits left in float32 after whole phases.
__device__ __forceinline__ float angle_of(int32_t position, float inv_freq) {
  constexpr double kTurn = 6.283185307179586;
  const double angle = static_cast<double>(position) * static_cast<double>(inv_freq);
  return static_cast<float>(angle - kTurn * floor(angle / kTurn));
}

struct Phase {
  float cosine, sine;
};
__device__ __forceinline__ Phase phase_of(const Rotation& r, int32_t position, uint32_t pair) {
  const float angle = angle_of(position, r.inv_freq[pair]);
  return {cosf(angle) * r.magnitude, sinf(angle) * r.magnitude};
}

// Columns x[a] and x[b] of a head, to y.
__device__ __forceinline__ void turn_pair(const Rotation& r, const Phase& phase, uint32_t pair,
                                          const float* x, float* y) {
  const uint32_t a = r.in_halves != 0 ? pair : 2 * pair;
  const uint32_t b = r.in_halves != 0 ? pair + r.n_dims / 2 : 2 * pair + 1;
  const float u = x[a], v = x[b];
  y[a] = u * phase.cosine - v * phase.sine;
  y[b] = u * phase.sine + v * phase.cosine;
}

}  // namespace bp::cuda
