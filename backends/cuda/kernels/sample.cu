#include "backends/cuda/kernels/sample.hpp"

#include "backends/cuda/kernels/select.cuh"

namespace bp::cuda {

namespace {

constexpr uint32_t kPerThread = kSliceColumns / kSampleThreads;

struct Row {
  const SampleRequest* request;
  const float* logits;
  uint32_t width;
  uint32_t n_slices;
  uint64_t first_slice;  // of the row, in arrays of slices
};

// Of the block's row of the grid; no request where the step has fewer.
__device__ __forceinline__ Row row_of_block(const SampleParams& p) {
  if (blockIdx.x >= p.step->n_samples) return {};
  Row row{};
  row.request = p.step->samples + blockIdx.x;
  const SampleParams::Output& output = p.outputs[row.request->output];
  const uint32_t r = row.request->row;
  const uint64_t at = output.has_all_tokens != 0 ? p.step->output_rows[row.request->output][r] : r;
  row.logits = output.rows.data + at * output.rows.stride;
  row.width = output.width;
  row.n_slices = (output.width + kSliceColumns - 1) / kSliceColumns;
  row.first_slice = static_cast<uint64_t>(blockIdx.x) * p.n_slices;
  return row;
}

struct Best {
  float logit;
  uint32_t id;
};
__device__ __forceinline__ bool is_better(const Best& a, const Best& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
}
// The best of a block. scratch has one for each warp.
__device__ Best block_best(Best best, Best* scratch) {
  for (int mask = 16; mask > 0; mask /= 2) {
    const Best other{__shfl_xor_sync(kAllLanes, best.logit, mask),
                     __shfl_xor_sync(kAllLanes, best.id, mask)};
    if (is_better(other, best)) best = other;
  }
  __syncthreads();
  if (lane_index() == 0) scratch[warp_index()] = best;
  __syncthreads();
  best = scratch[0];
  for (uint32_t w = 1; w < kSampleWarps; ++w) {
    if (is_better(scratch[w], best)) best = scratch[w];
  }
  return best;
}

// Once read, logits stay in registers for the sum.
__global__ void __launch_bounds__(kSampleThreads)
    survey_slices(const __grid_constant__ SampleParams p) {
  begin_in_order();
  __shared__ Best scratch[kSampleWarps];
  __shared__ float sums[kSampleWarps];
  const Row row = row_of_block(p);
  if (row.request == nullptr || blockIdx.y >= row.n_slices) return;
  const uint32_t first = blockIdx.y * kSliceColumns + threadIdx.x;
  float logits[kPerThread];
  Best best{-INFINITY, ~0u};
  bool is_number = true;
  BP_UNROLL
  for (uint32_t j = 0; j < kPerThread; ++j) {
    const uint32_t id = first + j * kSampleThreads;
    logits[j] = id < row.width ? row.logits[id] : -INFINITY;
    is_number &= logits[j] < INFINITY;
    if (logits[j] > best.logit) best = {logits[j], id};
  }
  best = block_best(best, scratch);
  float sum = 0;
  BP_UNROLL
  for (uint32_t j = 0; j < kPerThread; ++j) {
    if (logits[j] > -INFINITY) sum += expf(logits[j] - best.logit);
  }
  sum = block_sum(sum, sums);
  const float n_wrong = block_sum(is_number ? 0.0f : 1.0f, sums);
  if (threadIdx.x != 0) return;
  p.surveys[row.first_slice + blockIdx.y] = {best.logit, best.id, sum,
                                             n_wrong > 0 ? BP_ROW_NO_NUMBERS : 0u};
}

__device__ __forceinline__ Best best_of_row(const SampleParams& p, const Row& row, Best* scratch) {
  Best best{-INFINITY, ~0u};
  if (threadIdx.x < row.n_slices) {
    const SliceSurvey& survey = p.surveys[row.first_slice + threadIdx.x];
    best = {survey.greatest, survey.id};
  }
  return block_best(best, scratch);
}

// Of a draw without top_k, in the order of ids.
__device__ __forceinline__ float weight_of(const SampleRequest& request, float logit,
                                           float greatest) {
  if (!(logit > -INFINITY) || logit < greatest + request.floor) return 0;
  return expf((logit - greatest) * request.scale);
}

__device__ __forceinline__ bool draws_by_id(const SampleRequest& request) {
  return request.choice == BP_CHOOSE_DRAW && request.top_k == 0;
}
__device__ __forceinline__ uint32_t n_best_of(const SampleRequest& request) {
  const uint32_t drawn = request.choice == BP_CHOOSE_DRAW ? request.top_k : 0;
  return max(request.n_candidates, drawn);
}

__global__ void __launch_bounds__(kSampleThreads)
    weigh_slices(const __grid_constant__ SampleParams p) {
  begin_in_order();
  __shared__ Best scratch[kSampleWarps];
  __shared__ double sums[kSampleWarps];
  __shared__ SelectRoom room;
  const Row row = row_of_block(p);
  if (row.request == nullptr || blockIdx.y >= row.n_slices) return;
  const uint64_t slice = row.first_slice + blockIdx.y;
  const uint32_t begin = blockIdx.y * kSliceColumns;
  const uint32_t n = min(row.width - begin, kSliceColumns);
  const float* logits = row.logits + begin;
  if (draws_by_id(*row.request)) {
    const float greatest = best_of_row(p, row, scratch).logit;
    // In double: a draw beyond what rounding leaves of the sum gets the slice's last column.
    double own = 0;
    for (uint32_t i = threadIdx.x; i < n; i += kSampleThreads) {
      own += weight_of(*row.request, logits[i], greatest);
    }
    const double mass = block_running(own, sums).total;
    if (threadIdx.x == 0) p.masses[slice] = mass;
  }
  const uint32_t k = n_best_of(*row.request);
  if (k == 0) return;
  const auto key_at = [&](uint32_t i) { return key_of(logits[i], begin + i); };
  select_greatest(key_at, n, k, p.best + slice * kMaxCandidates, room);
}

struct DrawRoom {
  double sums[kSampleWarps];
  uint32_t places[kSampleWarps];
  double before;
  int32_t token;
};

// The slice that the draw falls into, then the thread whose columns it falls into, then the column.
__device__ int32_t draw_by_id(const SampleParams& p, const Row& row, float greatest,
                              DrawRoom& room) {
  const SampleRequest& request = *row.request;
  const double mass = threadIdx.x < row.n_slices ? p.masses[row.first_slice + threadIdx.x] : 0.0;
  const Running<double> slices = block_running(mass, room.sums);
  const double target = request.uniform * slices.total;
  const uint32_t slice = thread_at(target, mass, slices.before, room.places);
  if (threadIdx.x == 0) room.token = -1;
  if (threadIdx.x == slice) room.before = slices.before;
  __syncthreads();
  if (slice == blockDim.x) return -1;
  const double rest = target - room.before;

  const uint32_t begin = slice * kSliceColumns + threadIdx.x * kPerThread;
  const uint32_t end = min(begin + kPerThread, row.width);
  double own = 0;
  for (uint32_t i = begin; i < end; ++i) own += weight_of(request, row.logits[i], greatest);
  const Running<double> threads = block_running(own, room.sums);
  if (thread_at(rest, own, threads.before, room.places) == threadIdx.x) {
    double until = threads.before;
    for (uint32_t i = begin; i < end; ++i) {
      const float weight = weight_of(request, row.logits[i], greatest);
      if (weight == 0) continue;
      room.token = static_cast<int32_t>(i);
      until += weight;
      if (until > rest) break;
    }
  }
  __syncthreads();
  return room.token;
}

// A thread for each of the best; keys descend.
__device__ int32_t draw_of_best(const Row& row, const uint64_t* keys, float greatest,
                                DrawRoom& room) {
  const SampleRequest& request = *row.request;
  const uint64_t key = threadIdx.x < request.top_k ? keys[threadIdx.x] : 0;
  const double weight = key == 0 ? 0 : weight_of(request, row.logits[id_of(key)], greatest);
  const Running<double> sums = block_running(weight, room.sums);
  const uint32_t at = thread_at(request.uniform * sums.total, weight, sums.before, room.places);
  return at == blockDim.x ? -1 : static_cast<int32_t>(id_of(keys[at]));
}

__device__ double log_sum_of(const SampleParams& p, const Row& row, float greatest, double* sums) {
  double sum = 0;
  if (threadIdx.x < row.n_slices) {
    const SliceSurvey& survey = p.surveys[row.first_slice + threadIdx.x];
    if (survey.sum > 0) {
      sum = survey.sum * exp(static_cast<double>(survey.greatest) - greatest);
    }
  }
  const double total = block_running(sum, sums).total;
  return total > 0 ? greatest + log(total) : -INFINITY;
}

__global__ void __launch_bounds__(kSampleThreads)
    choose_tokens(const __grid_constant__ SampleParams p) {
  begin_in_order();
  __shared__ Best scratch[kSampleWarps];
  __shared__ DrawRoom draw;
  __shared__ SelectRoom room;
  __shared__ uint64_t keys[kSampleThreads];
  const Row row = row_of_block(p);
  if (row.request == nullptr) return;
  const SampleRequest& request = *row.request;
  const Best best = best_of_row(p, row, scratch);
  const double log_sum = log_sum_of(p, row, best.logit, draw.sums);
  const bool is_wrong =
      threadIdx.x < row.n_slices && p.surveys[row.first_slice + threadIdx.x].flags != 0;
  const bool no_numbers = block_least(is_wrong ? 0u : 1u, draw.places) == 0;

  const uint32_t k = n_best_of(request);
  uint32_t n_best = 0;
  if (k > 0) {
    const uint64_t* found = p.best + row.first_slice * kMaxCandidates;
    const auto key_at = [&](uint32_t i) { return found[i / k * kMaxCandidates + i % k]; };
    keys[threadIdx.x] = 0;
    n_best = select_greatest(key_at, row.n_slices * k, k, keys, room);
    sort_descending(keys);
  }
  int32_t token = -1;
  if (request.choice == BP_CHOOSE_BEST && best.logit > -INFINITY) {
    token = static_cast<int32_t>(best.id);
  } else if (draws_by_id(request)) {
    token = draw_by_id(p, row, best.logit, draw);
  } else if (request.choice == BP_CHOOSE_DRAW) {
    token = draw_of_best(row, keys, best.logit, draw);
  }
  n_best = min(n_best, request.n_candidates);
  if (threadIdx.x < n_best) {
    const uint32_t id = id_of(keys[threadIdx.x]);
    p.candidates[request.first_candidate + threadIdx.x] = {static_cast<int32_t>(id),
                                                           row.logits[id]};
  }
  if (threadIdx.x != 0) return;
  bp_row_result& result = p.results[blockIdx.x];
  result.token = token;
  result.token_logit = token < 0 ? -INFINITY : row.logits[token];
  result.given_logit = request.token < 0 ? -INFINITY : row.logits[request.token];
  result.n_candidates = n_best;
  result.log_sum = log_sum;
  result.flags = no_numbers ? BP_ROW_NO_NUMBERS : 0u;
  result.reserved = 0;
}

}  // namespace

Kernel<SampleParams> survey_kernel() {
  return {"survey_slices", survey_slices};
}
Kernel<SampleParams> weigh_kernel() {
  return {"weigh_slices", weigh_slices};
}
Kernel<SampleParams> choose_kernel() {
  return {"choose_tokens", choose_tokens};
}

}  // namespace bp::cuda
