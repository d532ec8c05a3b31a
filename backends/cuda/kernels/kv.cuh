#pragma once
// Rows of the KV cache by type.

#include "backends/cuda/kernels/ptx.cuh"
#include "backends/cuda/kernels/views.hpp"

namespace bp::cuda {

__device__ __forceinline__ uint8_t* kv_row(const KvPlane& plane, uint32_t block, uint32_t head,
                                           uint32_t slot) {
  const uint64_t row =
      (static_cast<uint64_t>(block) * plane.n_heads + head) * plane.block_size + slot;
  return plane.data + row * plane.row_bytes;
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

// X(NAME) for each type of the cache.
#define BP_CUDA_KV_FORMATS(X) X(F32) X(F16) X(BF16) X(F8_E4M3) X(Q8_0)

}  // namespace bp::cuda
