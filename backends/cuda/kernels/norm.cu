#include <algorithm>

#include "backends/cuda/kernels/norm.cuh"
#include "backends/cuda/kernels/prepare.cuh"

namespace bp::cuda {

namespace {

constexpr uint32_t kMaxWarps = 8;
constexpr uint32_t kMaxThreads = 1024;  // of a wide group
constexpr uint32_t kMaxFours = 4;       // neighbouring columns of a wide group that a thread keeps

// y as the product after it takes it, once all of the row is written.
__device__ __forceinline__ void write_prepared(const NormParams& p, uint64_t row, const float* y) {
  if (p.form == XForm::kFloats) return;
  __syncthreads();
  uint8_t* prepared = p.prepared.data + row * p.prepared.stride_bytes;
  const uint32_t n_columns = columns_of_form(p.form, p.width);
  for (uint32_t at = threadIdx.x * kRunOfBytes; at < n_columns; at += blockDim.x * kRunOfBytes) {
    float values[kRunOfBytes];
    read_run(y, at, p.width, values);
    write_run(p.form, values, prepared, p.width, at);
  }
}

// A row is read again for its variance and its result: it comes from cache, and a variance around
// the mean loses no digits.
__global__ void __launch_bounds__(kMaxWarps* kWarp)
    normalise(const __grid_constant__ NormParams p) {
  begin_in_order();
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
  write_prepared(p, row, y);
}

__device__ __forceinline__ float4& four_of(float* data, uint32_t i) {
  return reinterpret_cast<float4*>(data)[i];
}

// Everything is read before anything waits for it: of few rows that is what takes time.
__global__ void __launch_bounds__(kMaxThreads)
    normalise_wide(const __grid_constant__ NormParams p) {
  begin_in_order();
  __shared__ float scratch[kMaxThreads / kWarp];
  const uint64_t row = blockIdx.x;
  const uint32_t first = blockIdx.y * p.group, n_fours = p.group / 4;
  const auto n = static_cast<float>(p.group);
  float4 x[kMaxFours] = {}, residual[kMaxFours] = {};
  const auto for_each_four = [&](const auto& f) {
    BP_UNROLL
    for (uint32_t k = 0; k < kMaxFours; ++k) {
      const uint32_t i = k * blockDim.x + threadIdx.x;
      if (i < n_fours) f(k, i);
    }
  };
  float* const from = p.x.data + row * p.x.stride + first;
  for_each_four([&](uint32_t k, uint32_t i) { x[k] = four_of(from, i); });
  if (p.residual.data != nullptr) {
    float* const more = p.residual.data + row * p.residual.stride + first;
    for_each_four([&](uint32_t k, uint32_t i) { residual[k] = four_of(more, i); });
    for_each_four([&](uint32_t k, uint32_t) {
      x[k].x += residual[k].x, x[k].y += residual[k].y;
      x[k].z += residual[k].z, x[k].w += residual[k].w;
    });
  }
  if (p.sum.data != nullptr) {
    float* const to = p.sum.data + row * p.sum.stride + first;
    for_each_four([&](uint32_t k, uint32_t i) { four_of(to, i) = x[k]; });
  }
  float4 weight[kMaxFours];
  if (p.weight != nullptr) {
    for_each_four([&](uint32_t k, uint32_t i) {
      weight[k] = *reinterpret_cast<const float4*>(p.weight + (first + 4 * i) % p.n_weights);
    });
  }
  float mean = 0;
  if (p.subtracts_mean != 0) {
    float total = 0;
    for_each_four([&](uint32_t k, uint32_t) { total += x[k].x + x[k].y + x[k].z + x[k].w; });
    mean = block_sum(total, scratch) / n;
  }
  float squares = 0;
  for_each_four([&](uint32_t k, uint32_t) {
    squares += square_from(x[k].x, mean) + square_from(x[k].y, mean) + square_from(x[k].z, mean) +
               square_from(x[k].w, mean);
  });
  const float scale = norm_scale(block_sum(squares, scratch), n, p.eps);

  float* const y = p.y.data + row * p.y.stride + first;
  for_each_four([&](uint32_t k, uint32_t i) {
    float4 value = x[k];
    value.x = (value.x - mean) * scale, value.y = (value.y - mean) * scale;
    value.z = (value.z - mean) * scale, value.w = (value.w - mean) * scale;
    if (p.weight != nullptr) {
      value.x = weighted(value.x, weight[k].x, p.weight_offset);
      value.y = weighted(value.y, weight[k].y, p.weight_offset);
      value.z = weighted(value.z, weight[k].z, p.weight_offset);
      value.w = weighted(value.w, weight[k].w, p.weight_offset);
    }
    if (p.bias != nullptr) {
      const auto* const b = reinterpret_cast<const float4*>(p.bias + (first + 4 * i) % p.n_biases);
      value.x += b->x, value.y += b->y, value.z += b->z, value.w += b->w;
    }
    four_of(y, i) = value;
  });
  write_prepared(p, row, y);
}

bool is_in_fours(const void* data) {
  return reinterpret_cast<uintptr_t>(data) % sizeof(float4) == 0;
}

}  // namespace

bool is_wide(const NormParams& p) {
  return p.group > kMaxWarps * 4 * kWarp && p.group % 4 == 0 &&
         p.group <= kMaxThreads * kMaxFours * 4 && is_in_fours(p.x.data) &&
         is_in_fours(p.residual.data) && is_in_fours(p.sum.data) && is_in_fours(p.y.data) &&
         is_in_fours(p.weight) && p.n_weights % 4 == 0 && is_in_fours(p.bias) &&
         p.n_biases % 4 == 0;
}

Geometry norm_geometry(const NormParams& p) {
  const uint32_t n_threads = is_wide(p) ? std::min(round_up(p.group / 4, kWarp), kMaxThreads)
                                        : norm_warps(p.group) * kWarp;
  return {{p.n_rows, p.width / p.group, 1}, n_threads, 0};
}

Kernel<NormParams> norm_kernel(const NormParams& p) {
  if (is_wide(p)) return {"normalise_wide", normalise_wide};
  return {"normalise", normalise};
}

}  // namespace bp::cuda
