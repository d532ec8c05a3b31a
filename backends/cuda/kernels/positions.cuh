#pragma once
// Which positions a token's query sees.

#include "backends/cuda/kernels/activation.cuh"
#include "backends/cuda/kernels/attend.hpp"
#include "backends/cuda/kernels/kv.cuh"

namespace bp::cuda {

struct Positions {
  uint32_t begin, end;
};

// Of AttendParams, or of others with a step, causality and a window.
template <class Params>
__device__ __forceinline__ Positions visible(const Params& p, uint32_t t, uint32_t sequence) {
  const auto position = static_cast<uint32_t>(p.step->positions[t]);
  const uint32_t end = p.is_causal != 0 ? position + 1 : p.step->context_len[sequence];
  const bool is_cut = p.window != 0 && position + 1 > p.window;
  return {is_cut ? position + 1 - p.window : 0, end};
}

}  // namespace bp::cuda
