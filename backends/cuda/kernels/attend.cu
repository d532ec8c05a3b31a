#include "backends/cuda/kernels/attend.hpp"

#include "backends/cuda/kernels/positions.cuh"
#include "backplane/ops.h"

namespace bp::cuda {

namespace {

// What one warp has seen of a row of scores.
template <uint32_t kPerLane>
struct Partial {
  float largest = -INFINITY;  // of the scores; NaNs are passed over and come through exp
  float denominator = 0;
  float sums[kPerLane] = {};  // of v: column lane + 32 * i
};

struct Query {
  const float* values;  // [head_dim], in shared memory
  uint32_t head, kv_head;
  uint32_t position;
};

__device__ __forceinline__ float rounded_to_bf16(float x) {
  return bf16_value(bf16_bits(x));
}

// What the head's slope adds to the score of a position.
__device__ __forceinline__ float bias_of(const AttendParams& p, const Query& q, uint32_t position) {
  if (p.slopes == nullptr) return 0;
  const float slope = p.slopes[q.head];
  if (p.slope_rounding == BP_SLOPES_EXACT) {
    return slope * static_cast<float>(static_cast<int32_t>(position - q.position));
  }
  const float at = rounded_to_bf16(static_cast<float>(position));
  return rounded_to_bf16(rounded_to_bf16(slope) * at);
}

template <bp_dtype kDtype>
__device__ __forceinline__ float score_of(const AttendParams& p, const float* q, uint8_t* row,
                                          float bias) {
  float sum = 0;
  for (uint32_t d = 0; d < p.k.head_dim; ++d) sum += q[d] * KvFormat<kDtype>::read(p.k, row, d);
  sum = (sum + bias) * p.scale;
  return p.softcap != 0 ? soft_cap(p.softcap, sum) : sum;
}

// What the lanes of a warp tell each other of a tile, in shared memory.
struct Turn {
  float* weights;    // [32]
  uint32_t* blocks;  // [32]
};

// Tiles of 32 absolute positions go to the warps in turn: which warp sums what, and in which order,
// does not depend on chunks, blocks or the batch.
template <bp_dtype kDtype, uint32_t kPerLane>
__device__ __forceinline__ void attend_tile(const AttendParams& p, const Query& q,
                                            const int32_t* blocks, uint32_t tile,
                                            const Positions& seen, const Turn& turn,
                                            Partial<kPerLane>& partial) {
  const uint32_t position = tile * kWarp + lane_index();
  const bool is_seen = position >= seen.begin && position < seen.end;
  float score = -INFINITY;
  uint32_t block = 0;
  if (is_seen) {
    block = static_cast<uint32_t>(blocks[position / p.k.block_size]);
    uint8_t* key = kv_row(p.k, block, q.kv_head, position % p.k.block_size);
    score = score_of<kDtype>(p, q.values, key, bias_of(p, q, position));
  }
  const float largest = fmaxf(partial.largest, warp_max(score));
  // All scores -inf or NaN so far: their weights are theirs to the power of e.
  const float base = largest == -INFINITY ? 0 : largest;
  const float rescale = expf(partial.largest - base);
  const float weight = is_seen ? expf(score - base) : 0;
  partial.denominator = partial.denominator * rescale + warp_sum(weight);
  for (uint32_t i = 0; i < kPerLane; ++i) partial.sums[i] *= rescale;
  partial.largest = largest;
  __syncwarp();  // the other lanes are past their reads of the tile before
  turn.weights[lane_index()] = weight;
  turn.blocks[lane_index()] = block;
  __syncwarp();
  const uint32_t first = tile * kWarp;
  const uint32_t begin = seen.begin > first ? seen.begin - first : 0;
  const uint32_t end = min(seen.end - first, kWarp);
  for (uint32_t j = begin; j < end; ++j) {
    uint8_t* row = kv_row(p.v, turn.blocks[j], q.kv_head, (first + j) % p.v.block_size);
    const float w = turn.weights[j];
    for (uint32_t i = 0; i < kPerLane; ++i) {
      const uint32_t d = lane_index() + i * kWarp;
      if (d < p.v.head_dim) partial.sums[i] += w * KvFormat<kDtype>::read(p.v, row, d);
    }
  }
}

template <bp_dtype kDtype, uint32_t kPerLane>
__global__ void __launch_bounds__(kAttendWarps* kWarp)
    attend(const __grid_constant__ AttendParams p) {
  begin_in_order();
  BP_DYNAMIC_SHARED(shared_bytes);
  float* q = reinterpret_cast<float*>(shared_bytes);  // [head_dim]
  float* largest = q + p.k.head_dim;                  // [warps]
  float* denominators = largest + kAttendWarps;       // [warps]
  float* sums = denominators + kAttendWarps;          // [warps, v_head_dim]
  const uint32_t t = blockIdx.x, head = blockIdx.y, n = p.v.head_dim;
  float* weights = sums + kAttendWarps * n;  // [warps, 32]
  auto* turn_blocks = reinterpret_cast<uint32_t*>(weights + kAttendWarps * kWarp);
  const Turn turn{weights + warp_index() * kWarp, turn_blocks + warp_index() * kWarp};
  const uint32_t sequence = p.step->sequence_of[t];
  float* out = p.o.data + static_cast<uint64_t>(t) * p.o.stride + head * n;
  if (p.step->is_running[sequence] == 0) {
    for (uint32_t d = threadIdx.x; d < n; d += blockDim.x) out[d] = 0;
    return;
  }
  const float* q_row = p.q.data + static_cast<uint64_t>(t) * p.q.stride + head * p.k.head_dim;
  for (uint32_t d = threadIdx.x; d < p.k.head_dim; d += blockDim.x) q[d] = q_row[d];
  __syncthreads();

  const Positions seen = visible(p, t, sequence);
  const StepView::BlockTable& table = p.step->tables[p.group];
  const int32_t* blocks = table.blocks + sequence * table.stride;
  const Query query{q, head, head / (p.n_heads / p.k.n_heads),
                    static_cast<uint32_t>(p.step->positions[t])};
  Partial<kPerLane> partial;
  const uint32_t first = seen.begin / kWarp, last = (seen.end + kWarp - 1) / kWarp;
  for (uint32_t tile = first; tile < last; ++tile) {
    if (tile % kAttendWarps != warp_index()) continue;
    attend_tile<kDtype, kPerLane>(p, query, blocks, tile, seen, turn, partial);
  }
  if (lane_index() == 0) {
    largest[warp_index()] = partial.largest;
    denominators[warp_index()] = partial.denominator;
  }
  for (uint32_t i = 0; i < kPerLane; ++i) {
    const uint32_t d = lane_index() + i * kWarp;
    if (d < n) sums[warp_index() * n + d] = partial.sums[i];
  }
  __syncthreads();

  float top = p.sinks == nullptr ? -INFINITY : p.sinks[head];
  for (uint32_t w = 0; w < kAttendWarps; ++w) top = fmaxf(top, largest[w]);
  if (top == -INFINITY) top = 0;
  float denominator = p.sinks == nullptr ? 0 : expf(p.sinks[head] - top);
  float scales[kAttendWarps];
  for (uint32_t w = 0; w < kAttendWarps; ++w) {
    // A warp that saw no number above -inf has summed with 0 as its base, and maybe nothing at all.
    const float base = largest[w] == -INFINITY ? 0 : largest[w];
    scales[w] = denominators[w] == 0 ? 0 : expf(base - top);
    denominator += denominators[w] * scales[w];
  }
  for (uint32_t d = threadIdx.x; d < n; d += blockDim.x) {
    float sum = 0;
    for (uint32_t w = 0; w < kAttendWarps; ++w) sum += sums[w * n + d] * scales[w];
    out[d] = sum / denominator;
  }
}

template <bp_dtype kDtype>
Kernel<AttendParams> by_width(const char* name, uint32_t v_head_dim) {
  if (v_head_dim <= 128) return {name, attend<kDtype, 4>};
  return {name, attend<kDtype, kMaxValueDim / kWarp>};
}

}  // namespace

Kernel<AttendParams> attend_kernel(bp_dtype k_dtype, bp_dtype v_dtype, uint32_t v_head_dim) {
  if (k_dtype != v_dtype) return by_width<BP_DTYPE_NONE>("attend_mixed", v_head_dim);
  switch (k_dtype) {
#define BP_CASE(NAME)   \
  case BP_DTYPE_##NAME: \
    return by_width<BP_DTYPE_##NAME>("attend_" #NAME, v_head_dim);
    BP_CUDA_KV_FORMATS(BP_CASE)
#undef BP_CASE
    default:
      return {};
  }
}

}  // namespace bp::cuda
