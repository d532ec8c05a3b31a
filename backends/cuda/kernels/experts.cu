#include "backends/cuda/kernels/experts.hpp"

#include "backends/cuda/kernels/simt.cuh"
#include "backplane/ops.h"

namespace bp::cuda {

namespace {

// In double as the spec's oracle has them: which expert is chosen must not depend on a last digit.
struct Candidate {
  double value;
  uint32_t index;
};

// The higher value, the lower index among equals; a NaN comes after all numbers.
__device__ __forceinline__ bool comes_before(const Candidate& a, const Candidate& b) {
  const bool a_nan = a.value != a.value, b_nan = b.value != b.value;
  if (a_nan || b_nan) return a_nan == b_nan ? a.index < b.index : b_nan;
  return a.value != b.value ? a.value > b.value : a.index < b.index;
}

__device__ __forceinline__ Candidate best_of_warp(Candidate c) {
  for (int mask = 16; mask > 0; mask /= 2) {
    const Candidate other{__shfl_xor_sync(kAllLanes, c.value, mask),
                          __shfl_xor_sync(kAllLanes, c.index, mask)};
    if (comes_before(other, c)) c = other;
  }
  return c;
}

// The first of values [first, first + n) that comes after `last` in order; index ~0 if none does.
__device__ __forceinline__ Candidate next_best(const double* values, uint32_t first, uint32_t n,
                                               const Candidate* last) {
  Candidate best{NAN, ~0u};
  for (uint32_t i = first + lane_index(); i < first + n; i += kWarp) {
    const Candidate c{values[i], i};
    if (last != nullptr && !comes_before(*last, c)) continue;
    if (comes_before(c, best)) best = c;
  }
  return best_of_warp(best);
}

__device__ __forceinline__ double sum_of_warp(double x) {
  for (int mask = 16; mask > 0; mask /= 2) x += __shfl_xor_sync(kAllLanes, x, mask);
  return x;
}

__device__ __forceinline__ double largest_of(const double* values, uint32_t n) {
  double largest = -INFINITY;
  for (uint32_t i = lane_index(); i < n; i += kWarp) largest = fmax(largest, values[i]);
  for (int mask = 16; mask > 0; mask /= 2) {
    largest = fmax(largest, __shfl_xor_sync(kAllLanes, largest, mask));
  }
  return largest;
}

__device__ void softmax(double* values, uint32_t n) {
  const double largest = largest_of(values, n);
  double sum = 0;
  for (uint32_t i = lane_index(); i < n; i += kWarp) sum += values[i] = exp(values[i] - largest);
  sum = sum_of_warp(sum);
  for (uint32_t i = lane_index(); i < n; i += kWarp) values[i] /= sum;
  __syncwarp();
}

// Experts outside of the best groups can no longer be chosen.
__device__ void keep_groups(const RouteParams& p, double* choice, double* sums) {
  const uint32_t size = p.n_experts / p.n_groups;
  for (uint32_t g = 0; g < p.n_groups; ++g) {
    Candidate last{};
    double sum = 0;
    for (uint32_t i = 0; i < p.group_best; ++i) {
      last = next_best(choice, g * size, size, i == 0 ? nullptr : &last);
      sum += last.value;
    }
    if (lane_index() == 0) sums[g] = sum;
  }
  __syncwarp();
  Candidate last{};
  for (uint32_t i = 0; i < p.n_groups_used; ++i) {
    last = next_best(sums, 0, p.n_groups, i == 0 ? nullptr : &last);
  }
  for (uint32_t e = lane_index(); e < p.n_experts; e += kWarp) {
    const Candidate group{sums[e / size], e / size};
    if (comes_before(last, group)) choice[e] = -INFINITY;
  }
  __syncwarp();
}

__global__ void __launch_bounds__(kWarp) route(const __grid_constant__ RouteParams p) {
  begin_in_order();
  BP_DYNAMIC_SHARED(shared_bytes);
  double* scores = reinterpret_cast<double*>(shared_bytes);  // [n_experts]
  double* choice = scores + p.n_experts;                     // [n_experts]
  double* sums = choice + p.n_experts;                       // [n_groups]
  const uint64_t row = blockIdx.x;
  const float* logits = p.logits.data + row * p.logits.stride;
  float* ids = p.ids.data + row * p.ids.stride;
  float* shares = p.shares.data + row * p.shares.stride;

  for (uint32_t e = lane_index(); e < p.n_experts; e += kWarp) {
    const double logit = logits[e];
    scores[e] = p.scoring == BP_ROUTE_SIGMOID ? 1 / (1 + exp(-logit)) : logit;
  }
  __syncwarp();
  if (p.scoring == BP_ROUTE_SOFTMAX) softmax(scores, p.n_experts);
  for (uint32_t e = lane_index(); e < p.n_experts; e += kWarp) {
    choice[e] = scores[e] + (p.bias == nullptr ? 0.0 : static_cast<double>(p.bias[e]));
  }
  __syncwarp();
  if (p.n_groups > 1) keep_groups(p, choice, sums);

  Candidate chosen{};
  double largest = -INFINITY;
  for (uint32_t i = 0; i < p.n_used; ++i) {
    chosen = next_best(choice, 0, p.n_experts, i == 0 ? nullptr : &chosen);
    if (lane_index() == 0) ids[i] = static_cast<float>(chosen.index);
    largest = fmax(largest, scores[chosen.index]);
  }
  __syncwarp();
  if (lane_index() != 0) return;
  double sum = 0;
  for (uint32_t i = 0; i < p.n_used; ++i) {
    const double score = scores[static_cast<uint32_t>(ids[i])];
    sum += p.scoring == BP_ROUTE_SELECTED ? exp(score - largest) : score;
  }
  const bool is_divided = p.normalise != 0 || p.scoring == BP_ROUTE_SELECTED;
  for (uint32_t i = 0; i < p.n_used; ++i) {
    const double score = scores[static_cast<uint32_t>(ids[i])];
    const double share = p.scoring == BP_ROUTE_SELECTED ? exp(score - largest) : score;
    shares[i] = static_cast<float>((is_divided ? share / sum : share) * p.scale);
  }
}

__global__ void __launch_bounds__(256) sum_groups(const __grid_constant__ GroupSumParams p) {
  begin_in_order();
  const uint64_t row = blockIdx.x;
  const uint32_t column = blockIdx.y * 256 + threadIdx.x;
  if (column >= p.width) return;
  const float* x = p.x.data + row * p.x.stride + column;
  const float* shares = p.shares.data + row * p.shares.stride;
  float sum = 0;
  for (uint32_t g = 0; g < p.n_groups; ++g) sum += shares[g] * x[g * p.width];
  p.y.data[row * p.y.stride + column] = sum;
}

}  // namespace

Kernel<RouteParams> route_kernel() {
  return {"route", route};
}
Kernel<GroupSumParams> group_sum_kernel() {
  return {"sum_groups", sum_groups};
}

}  // namespace bp::cuda
