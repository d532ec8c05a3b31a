#include "backends/cuda/kernels/recurrent.hpp"

#include "backends/cuda/kernels/activation.cuh"

namespace bp::cuda {

namespace {

// x of a token before the chunk's first is history: the last kernel - 1 rows, oldest first.
__global__ void __launch_bounds__(128) convolve(const __grid_constant__ ShortConvParams p) {
  begin_in_order();
  const uint32_t s = blockIdx.x, column = blockIdx.y * blockDim.x + threadIdx.x;
  if (s >= p.step->n_seqs || column >= p.width) return;
  const uint32_t begin = p.step->query_start[s], n = p.step->query_start[s + 1] - begin;
  const bool is_running = p.step->is_running[s] != 0;
  const uint32_t n_before = p.kernel - 1;
  const int32_t in = p.step->state_in[s];
  const uint64_t entry_floats = static_cast<uint64_t>(n_before) * p.width;
  const float* history = p.entries + static_cast<uint64_t>(in) * entry_floats + column;
  const float* x = p.x.data + static_cast<uint64_t>(begin) * p.x.stride + column;
  float* y = p.y.data + static_cast<uint64_t>(begin) * p.y.stride + column;
  // Row i of the chunk, counted from n_before rows before its first.
  const auto row = [&](uint32_t i) {
    if (i >= n_before) return x[static_cast<uint64_t>(i - n_before) * p.x.stride];
    return in == 0 ? 0.0f : history[static_cast<uint64_t>(i) * p.width];
  };
  for (uint32_t t = 0; t < n; ++t) {
    float sum = p.bias == nullptr ? 0 : p.bias[column];
    for (uint32_t j = 0; j < p.kernel; ++j) {
      sum += p.w[static_cast<uint64_t>(column) * p.kernel + j] * row(t + j);
    }
    y[static_cast<uint64_t>(t) * p.y.stride] = is_running ? activate(p.activation, sum) : 0;
  }
  if (!is_running) return;
  // Ascending, so that history may be written where it is read.
  float* left = p.entries + static_cast<uint64_t>(p.step->state_out[s]) * entry_floats + column;
  for (uint32_t j = 0; j < n_before; ++j) left[static_cast<uint64_t>(j) * p.width] = row(n + j);
}

__device__ __forceinline__ float softplus(float x) {
  return x > 30 ? x : log1pf(expf(x));
}

// q and k of a token's key head, each divided by sqrt(|x|^2 + eps).
__device__ __forceinline__ void load_units(const GatedDeltaParams& p, uint32_t t, uint32_t key_head,
                                           float* q, float* k, float* scratch) {
  const float* row = p.qkv.data + static_cast<uint64_t>(t) * p.qkv.stride;
  const float* q_row = row + key_head * p.key_dim;
  const float* k_row = q_row + p.n_key_heads * p.key_dim;
  float q_squares = 0, k_squares = 0;
  for (uint32_t i = threadIdx.x; i < p.key_dim; i += blockDim.x) {
    q_squares += q_row[i] * q_row[i];
    k_squares += k_row[i] * k_row[i];
  }
  const float q_scale = 1 / sqrtf(block_sum(q_squares, scratch) + p.eps);
  const float k_scale = 1 / sqrtf(block_sum(k_squares, scratch) + p.eps);
  for (uint32_t i = threadIdx.x; i < p.key_dim; i += blockDim.x) {
    q[i] = q_row[i] * q_scale;
    k[i] = k_row[i] * k_scale;
  }
  __syncthreads();
}

// A thread keeps columns of the state, in device memory; it alone reads and writes them.
__global__ void __launch_bounds__(128) gated_delta(const __grid_constant__ GatedDeltaParams p) {
  begin_in_order();
  BP_DYNAMIC_SHARED(shared_bytes);
  __shared__ float scratch[4];
  float* q = reinterpret_cast<float*>(shared_bytes);  // [key_dim]
  float* k = q + p.key_dim;                           // [key_dim]
  const uint32_t s = blockIdx.x, head = blockIdx.y;
  if (s >= p.step->n_seqs) return;
  const uint32_t begin = p.step->query_start[s], end = p.step->query_start[s + 1];
  const bool is_running = p.step->is_running[s] != 0;
  const uint64_t head_floats = static_cast<uint64_t>(p.key_dim) * p.value_dim;
  const auto state_of = [&](int32_t entry) {
    return p.entries + (static_cast<uint64_t>(entry) * p.n_heads + head) * head_floats;
  };
  const int32_t in = p.step->state_in[s], out = p.step->state_out[s];
  float* state = state_of(out);
  for (uint32_t c = threadIdx.x; is_running && in != out && c < p.value_dim; c += blockDim.x) {
    for (uint32_t i = 0; i < p.key_dim; ++i) {
      const uint64_t at = static_cast<uint64_t>(i) * p.value_dim + c;
      state[at] = in == 0 ? 0.0f : state_of(in)[at];
    }
  }
  const uint32_t key_head = head / (p.n_heads / p.n_key_heads);
  for (uint32_t t = begin; t < end; ++t) {
    float* o = p.o.data + static_cast<uint64_t>(t) * p.o.stride + head * p.value_dim;
    if (!is_running) {
      for (uint32_t c = threadIdx.x; c < p.value_dim; c += blockDim.x) o[c] = 0;
      continue;
    }
    load_units(p, t, key_head, q, k, scratch);
    const float dt = p.a.data[static_cast<uint64_t>(t) * p.a.stride + head] +
                     (p.dt_bias == nullptr ? 0 : p.dt_bias[head]);
    const float decay = expf(p.decay[head] * softplus(dt));
    const float beta = sigmoid(p.b.data[static_cast<uint64_t>(t) * p.b.stride + head]);
    const float* v = p.qkv.data + static_cast<uint64_t>(t) * p.qkv.stride +
                     2 * p.n_key_heads * p.key_dim + head * p.value_dim;
    for (uint32_t c = threadIdx.x; c < p.value_dim; c += blockDim.x) {
      float remembered = 0, read = 0;
      for (uint32_t i = 0; i < p.key_dim; ++i) {
        remembered += k[i] * decay * state[static_cast<uint64_t>(i) * p.value_dim + c];
      }
      const float delta = beta * (v[c] - remembered);
      for (uint32_t i = 0; i < p.key_dim; ++i) {
        float& kept = state[static_cast<uint64_t>(i) * p.value_dim + c];
        kept = decay * kept + k[i] * delta;
        read += q[i] * kept;
      }
      o[c] = read * p.scale;
    }
    __syncthreads();  // q and k are the next token's from here on
  }
}

}  // namespace

Kernel<ShortConvParams> short_conv_kernel() {
  return {"convolve", convolve};
}
Kernel<GatedDeltaParams> gated_delta_kernel() {
  return {"gated_delta", gated_delta};
}

}  // namespace bp::cuda
