#include "backends/cuda/kernels/norm.cuh"
#include "backends/cuda/kernels/prepare.cuh"

namespace bp::cuda {

namespace {

constexpr uint32_t kMaxWarps = 8;

// A row is read again for its variance and its result: it comes from cache, and a variance around
// the mean loses no digits.
__global__ void __launch_bounds__(kMaxWarps* kWarp)
    normalise(const __grid_constant__ NormParams p) {
  __shared__ float scratch[kMaxWarps];
  const uint64_t row = blockIdx.x;
  const uint32_t first = blockIdx.y * p.group;
  const float* x = p.x.data + row * p.x.stride + first;
  const float* residual = p.residual.data;
  if (residual != nullptr) residual += row * p.residual.stride + first;
  float* out = p.sum.data;
  if (out != nullptr) out += row * p.sum.stride + first;
  const auto n = static_cast<float>(p.group);

  float total = 0;
  for (uint32_t i = threadIdx.x; i < p.group; i += blockDim.x) {
    const float value = residual == nullptr ? x[i] : x[i] + residual[i];
    if (out != nullptr) out[i] = value;
    total += value;
  }
  const float mean = p.subtracts_mean != 0 ? block_sum(total, scratch) / n : 0;

  // Each thread reads what it has itself written.
  const bool is_summed = out != nullptr;
  float squares = 0;
  for (uint32_t i = threadIdx.x; i < p.group; i += blockDim.x) {
    const float value = is_summed ? out[i] : residual == nullptr ? x[i] : x[i] + residual[i];
    squares += square_from(value, mean);
  }
  const float scale = norm_scale(block_sum(squares, scratch), n, p.eps);

  float* y = p.y.data + row * p.y.stride + first;
  for (uint32_t i = threadIdx.x; i < p.group; i += blockDim.x) {
    const float sum = is_summed ? out[i] : residual == nullptr ? x[i] : x[i] + residual[i];
    float value = (sum - mean) * scale;
    if (p.weight != nullptr) {
      value = weighted(value, p.weight[(first + i) % p.n_weights], p.weight_offset);
    }
    if (p.bias != nullptr) value += p.bias[(first + i) % p.n_biases];
    y[i] = value;
  }
  if (p.form == XForm::kFloats) return;
  __syncthreads();
  uint8_t* prepared = p.prepared.data + row * p.prepared.stride_bytes;
  const uint32_t n_columns = columns_of_form(p.form, p.width);
  for (uint32_t at = threadIdx.x * kRunOfBytes; at < n_columns; at += blockDim.x * kRunOfBytes) {
    float values[kRunOfBytes];
    BP_UNROLL
    for (uint32_t i = 0; i < kRunOfBytes; ++i) values[i] = at + i < p.width ? y[at + i] : 0;
    write_run(p.form, values, prepared, p.width, at);
  }
}

}  // namespace

Kernel<NormParams> norm_kernel() {
  return {"normalise", normalise};
}

}  // namespace bp::cuda
