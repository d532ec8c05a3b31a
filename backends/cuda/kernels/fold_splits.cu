#include "backends/cuda/kernels/flash.cuh"
#include "backends/cuda/kernels/prepare.cuh"

namespace bp::cuda {

namespace {

// A head's result from its parts. What weighs them is read by all threads together, their values
// several at a time: memory is far away.
__device__ __forceinline__ void fold_head(const AttendParams& p, uint32_t slot, uint32_t n_splits,
                                          uint32_t head, float* out) {
  __shared__ float largest[kMaxFlashSplits], denominators[kMaxFlashSplits];
  __syncthreads();  // threads are past the head before
  for (uint32_t s = threadIdx.x; s < n_splits; s += blockDim.x) {
    const float* const split = split_of(p, slot + s, head);
    largest[s] = split[0], denominators[s] = split[1];
  }
  __syncthreads();
  float top = p.sinks == nullptr ? -INFINITY : sink_score(p, head);
  for (uint32_t s = 0; s < n_splits; ++s) top = fmaxf(top, largest[s]);
  const float base = top == -INFINITY ? 0 : top;
  for (uint32_t d = threadIdx.x; d < p.v.head_dim; d += blockDim.x) {
    float denominator = p.sinks == nullptr ? 0 : exp2_fast(sink_score(p, head) - base), sum = 0;
    BP_UNROLL_BY(8)
    for (uint32_t s = 0; s < n_splits; ++s) {
      const float value = split_of(p, slot + s, head)[2 + d];
      const float weight = weight_of(largest[s], denominators[s], base);
      denominator += weight * denominators[s];
      sum += weight != 0 ? weight * value : 0;
    }
    out[d] = sum / denominator;
  }
}

__global__ void __launch_bounds__(128) fold_splits(const __grid_constant__ AttendParams p) {
  begin_in_order();
  const uint32_t t = blockIdx.x, n = p.v.head_dim;
  const uint32_t n_together = heads_of_fold(p.n_rows, p.n_heads), head = blockIdx.y * n_together;
  const uint32_t n_own = min(n_together, p.n_heads - head);
  float* out = p.o.data + static_cast<uint64_t>(t) * p.o.stride + head * n;
  const uint32_t sequence = p.step->sequence_of[t];
  const FlashSplits splits = p.work.splits[sequence];
  if (splits.n_splits > 1) {
    if (p.step->is_running[sequence] == 0) {
      for (uint32_t d = threadIdx.x; d < n_own * n; d += blockDim.x) out[d] = 0;
    } else {
      const uint32_t token = t - p.step->query_start[sequence];
      const uint32_t slot = splits.slot + token * splits.n_splits;
      for (uint32_t h = 0; h < n_own; ++h) {
        fold_head(p, slot, splits.n_splits, head + h, out + h * n);
      }
    }
  }
  if (p.form == XForm::kFloats) return;
  __syncthreads();
  uint8_t* prepared = p.prepared.data + t * p.prepared.stride_bytes;
  const uint32_t n_in = p.n_heads * n, first = head * n;
  // The last heads write the zeros behind the last column too.
  const bool is_last = head + n_own == p.n_heads;
  const uint32_t end = is_last ? columns_of_form(p.form, n_in) - first : n_own * n;
  for (uint32_t at = threadIdx.x * kRunOfBytes; at < end; at += blockDim.x * kRunOfBytes) {
    float values[kRunOfBytes];
    read_run(out, at, n_own * n, values);
    write_run(p.form, values, prepared, n_in, first + at);
  }
}

}  // namespace

Kernel<AttendParams> fold_splits_kernel() {
  return {"fold_splits", fold_splits};
}

}  // namespace bp::cuda
