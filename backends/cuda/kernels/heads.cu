#include "backends/cuda/kernels/heads.hpp"

#include "backends/cuda/kernels/kv.cuh"
#include "backends/cuda/kernels/norm.cuh"
#include "backends/cuda/kernels/rotate.cuh"

namespace bp::cuda {

namespace {

// What term(column) gives for all columns, added in the order of a block of norm_warps.
template <class Term>
__device__ __forceinline__ float sum_of_columns(uint32_t n_columns, uint32_t n_warps,
                                                const Term& term) {
  float total = 0;
  for (uint32_t w = 0; w < n_warps; ++w) {
    float sum = 0;
    for (uint32_t i = w * kWarp + lane_index(); i < n_columns; i += n_warps * kWarp) sum += term(i);
    sum = warp_sum(sum);
    if (n_warps == 1) return sum;
    total += sum;
  }
  return total;
}

// Each lane changes what it alone reads.
__device__ __forceinline__ void normalise_head(const HeadsParams& p, const float* weight,
                                               float* x) {
  const uint32_t dim = p.to_k.head_dim, n_warps = norm_warps(dim);
  const auto n = static_cast<float>(dim);
  float mean = 0;
  if (p.subtracts_mean != 0) {
    mean = sum_of_columns(dim, n_warps, [&](uint32_t i) { return x[i]; }) / n;
  }
  const float squares =
      sum_of_columns(dim, n_warps, [&](uint32_t i) { return square_from(x[i], mean); });
  const float scale = norm_scale(squares, n, p.eps);
  for (uint32_t i = lane_index(); i < dim; i += kWarp) {
    x[i] = weighted((x[i] - mean) * scale, weight[i], p.weight_offset);
  }
}

// A head's query or key, normalised and turned, in the warp's shared memory.
__device__ __forceinline__ void make_head(const HeadsParams& p, const float* from,
                                          const float* weight, const Phase* phases, float* x) {
  for (uint32_t i = lane_index(); i < p.to_k.head_dim; i += kWarp) x[i] = from[i];
  if (weight != nullptr) normalise_head(p, weight, x);
  __syncwarp();
  for (uint32_t i = lane_index(); i < p.rotation.n_dims / 2; i += kWarp) {
    turn_pair(p.rotation, phases[i], i, x, x);
  }
  __syncwarp();
}

__global__ void __launch_bounds__(kHeadsWarps* kWarp)
    make_heads(const __grid_constant__ HeadsParams p) {
  BP_DYNAMIC_SHARED(shared_bytes);
  const uint32_t n_pairs = p.rotation.n_dims / 2, dim = p.to_k.head_dim, n_kv = p.to_k.n_heads;
  auto* const phases = reinterpret_cast<Phase*>(shared_bytes);  // [n_pairs]
  float* const x = reinterpret_cast<float*>(phases + n_pairs) + warp_index() * dim;
  const uint64_t t = blockIdx.x;
  let_next_begin();
  // Positions are the host's.
  for (uint32_t i = threadIdx.x; i < n_pairs; i += blockDim.x) {
    phases[i] = phase_of(p.rotation, p.step->positions[t], i);
  }
  wait_for_launches_before();
  __syncthreads();
  const bool is_kept = is_running(*p.step, blockIdx.x);
  const uint32_t n_heads = is_kept ? p.n_heads + 2 * n_kv : p.n_heads;
  for (uint32_t head = blockIdx.y * kHeadsWarps + warp_index(); head < n_heads;
       head += gridDim.y * kHeadsWarps) {
    if (head < p.n_heads) {
      make_head(p, p.q.data + t * p.q.stride + head * dim, p.q_norm, phases, x);
      float* const to = p.to_q.data + t * p.to_q.stride + head * dim;
      for (uint32_t i = lane_index(); i < dim; i += kWarp) to[i] = x[i];
    } else if (head < p.n_heads + n_kv) {
      const uint32_t kv_head = head - p.n_heads;
      make_head(p, p.k.data + t * p.k.stride + kv_head * dim, p.k_norm, phases, x);
      store_head(p.to_k, x, kv_row_of_token(*p.step, p.group, p.to_k, blockIdx.x, kv_head));
    } else {
      const uint32_t kv_head = head - p.n_heads - n_kv;
      store_head(p.to_v, p.v.data + t * p.v.stride + kv_head * p.to_v.head_dim,
                 kv_row_of_token(*p.step, p.group, p.to_v, blockIdx.x, kv_head));
    }
    __syncwarp();  // the lanes are past their reads of x
  }
}

}  // namespace

Kernel<HeadsParams> heads_kernel() {
  return {"make_heads", make_heads};
}

}  // namespace bp::cuda
