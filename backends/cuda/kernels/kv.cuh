#pragma once
// Rows of the KV cache by type.

#include "backends/cuda/kernels/kv.hpp"
#include "backends/cuda/kernels/ptx.cuh"
#include "backends/cuda/kernels/views.hpp"

namespace bp::cuda {

__device__ __forceinline__ uint8_t* kv_row(const KvPlane& plane, uint32_t block, uint32_t head,
                                           uint32_t slot) {
  const uint64_t row =
      (static_cast<uint64_t>(block) * plane.n_heads + head) * plane.block_size + slot;
  return plane.data + row * plane.row_bytes;
}

__device__ __forceinline__ bool is_running(const StepView& step, uint32_t t) {
  return step.is_running[step.sequence_of[t]] != 0;
}
// Of a token's own position.
__device__ __forceinline__ uint8_t* kv_row_of_token(const StepView& step, uint32_t group,
                                                    const KvPlane& plane, uint32_t t,
                                                    uint32_t head) {
  const auto position = static_cast<uint32_t>(step.positions[t]);
  const StepView::BlockTable& table = step.tables[group];
  const uint64_t entry = step.sequence_of[t] * table.stride + position / plane.block_size;
  return kv_row(plane, static_cast<uint32_t>(table.blocks[entry]), head,
                position % plane.block_size);
}

__device__ __forceinline__ uint16_t* kv_scales(const KvPlane& plane, uint8_t* row) {
  return reinterpret_cast<uint16_t*>(row + (plane.head_dim + 3) / 4 * 4);
}

template <bp_dtype kDtype>
struct KvFormat;

template <>
struct KvFormat<BP_DTYPE_F32> {
  __device__ static float read(const KvPlane&, uint8_t* row, uint32_t d) {
    return reinterpret_cast<const float*>(row)[d];
  }
};
template <>
struct KvFormat<BP_DTYPE_F16> {
  __device__ static float read(const KvPlane&, uint8_t* row, uint32_t d) {
    return f16_value(reinterpret_cast<const uint16_t*>(row)[d]);
  }
};
template <>
struct KvFormat<BP_DTYPE_BF16> {
  __device__ static float read(const KvPlane&, uint8_t* row, uint32_t d) {
    return bf16_value(reinterpret_cast<const uint16_t*>(row)[d]);
  }
};
template <>
struct KvFormat<BP_DTYPE_F8_E4M3> {
  __device__ static float read(const KvPlane&, uint8_t* row, uint32_t d) {
    return e4m3_value(row[d]);
  }
};
template <>
struct KvFormat<BP_DTYPE_Q8_0> {
  __device__ static float read(const KvPlane& plane, uint8_t* row, uint32_t d) {
    return static_cast<float>(static_cast<int8_t>(row[d])) *
           f16_value(kv_scales(plane, row)[d / 32]);
  }
};

// Any of them, by the plane's own type: where K and V differ.
template <>
struct KvFormat<BP_DTYPE_NONE> {
  __device__ static float read(const KvPlane& plane, uint8_t* row, uint32_t d) {
    switch (plane.dtype) {
      case BP_DTYPE_F32:
        return KvFormat<BP_DTYPE_F32>::read(plane, row, d);
      case BP_DTYPE_F16:
        return KvFormat<BP_DTYPE_F16>::read(plane, row, d);
      case BP_DTYPE_BF16:
        return KvFormat<BP_DTYPE_BF16>::read(plane, row, d);
      case BP_DTYPE_F8_E4M3:
        return KvFormat<BP_DTYPE_F8_E4M3>::read(plane, row, d);
      default:
        return KvFormat<BP_DTYPE_Q8_0>::read(plane, row, d);
    }
  }
};

// A head's values, by one warp. Every lane takes part in shuffles.
template <bp_dtype kDtype>
__device__ __forceinline__ void store_head(const KvPlane& plane, const float* x, uint8_t* row) {
  for (uint32_t first = 0; first < plane.head_dim; first += kWarp) {
    const uint32_t d = first + lane_index();
    const bool is_real = d < plane.head_dim;
    const float value = is_real ? x[d] : 0.0f;
    if constexpr (kDtype == BP_DTYPE_Q8_0) {
      // A NaN among the 32 makes all of them NaN, by their scale.
      const bool is_nan = __any_sync(kAllLanes, value != value);
      const float scale = is_nan ? __uint_as_float(0x7fc00000u) : warp_max(fabsf(value)) / 127.0f;
      const float inverse = scale >= 1.17549435e-38f ? 1 / scale : 0;
      if (is_real) row[d] = static_cast<uint8_t>(__float2int_rn(value * inverse));
      if (lane_index() == 0) kv_scales(plane, row)[first / kWarp] = f16_bits(scale);
    } else if (is_real) {
      if constexpr (kDtype == BP_DTYPE_F32) reinterpret_cast<float*>(row)[d] = value;
      if constexpr (kDtype == BP_DTYPE_F16) reinterpret_cast<uint16_t*>(row)[d] = f16_bits(value);
      if constexpr (kDtype == BP_DTYPE_BF16) reinterpret_cast<uint16_t*>(row)[d] = bf16_bits(value);
      if constexpr (kDtype == BP_DTYPE_F8_E4M3) row[d] = e4m3_bits(value);
    }
  }
}

// X(NAME) for each type of the cache.
#define BP_CUDA_KV_FORMATS(X) X(F32) X(F16) X(BF16) X(F8_E4M3) X(Q8_0)

// By the plane's own type.
__device__ __forceinline__ void store_head(const KvPlane& plane, const float* x, uint8_t* row) {
  switch (plane.dtype) {
#define BP_CASE(NAME)   \
  case BP_DTYPE_##NAME: \
    return store_head<BP_DTYPE_##NAME>(plane, x, row);
    BP_CUDA_KV_FORMATS(BP_CASE)
#undef BP_CASE
    default:
      return;
  }
}

}  // namespace bp::cuda
