#pragma once
// Rows of x in the form that products take.

#include "backends/cuda/kernels/product.hpp"
#include "backends/cuda/kernels/ptx.cuh"

namespace bp::cuda {

inline constexpr uint32_t kRunOfBytes = 16;

inline constexpr float kLargestFloat = 3.402823466e38f;

// 16 columns as signed bytes with one scale, which is a NaN where one of them is NaN or infinite.
// A shared scale is that of a neighbouring lane too, which has the other half of 32 columns.
__device__ __forceinline__ void write_bytes(const float (&x)[16], uint8_t* row, uint32_t n_in,
                                            uint32_t first, bool shares_scale) {
  float largest = 0;
  bool is_finite = true;
  BP_UNROLL
  for (uint32_t i = 0; i < 16; ++i) {
    largest = fmaxf(largest, fabsf(x[i]));
    is_finite = is_finite && fabsf(x[i]) <= kLargestFloat;
  }
  if (shares_scale) {
    if (!is_finite) largest = INFINITY;
    largest = fmaxf(largest, __shfl_xor_sync(3u << (lane_index() & ~1u), largest, 1));
    is_finite = largest <= kLargestFloat;
  }
  const float scale = is_finite ? largest / 127.0f : __uint_as_float(0x7fc00000u);
  const float inverse = scale >= 1.17549435e-38f ? 1 / scale : 0;
  uint32_t words[4] = {};
  int32_t sum = 0;
  BP_UNROLL
  for (uint32_t i = 0; i < 16; ++i) {
    const int32_t q = is_finite ? __float2int_rn(x[i] * inverse) : 0;
    sum += q;
    words[i / 4] |= (static_cast<uint32_t>(q) & 0xffu) << (i % 4 * 8);
  }
  *reinterpret_cast<uint4*>(row + first) = {words[0], words[1], words[2], words[3]};
  reinterpret_cast<float2*>(row + n_in)[first / kRunOfBytes] = {scale,
                                                                scale * static_cast<float>(sum)};
}

__device__ __forceinline__ void write_halves(const float (&x)[16], uint8_t* row, uint32_t first,
                                             bool is_f16) {
  uint32_t words[8];
  BP_UNROLL
  for (uint32_t i = 0; i < 8; ++i) {
    words[i] = is_f16 ? pack_f16(x[2 * i], x[2 * i + 1]) : pack_bf16(x[2 * i], x[2 * i + 1]);
  }
  auto* to = reinterpret_cast<uint4*>(row + first * 2);
  to[0] = {words[0], words[1], words[2], words[3]};
  to[1] = {words[4], words[5], words[6], words[7]};
}

// Columns [first, first + 16) of a row in its new form; zeros behind the last column. Lanes 2 * i
// and 2 * i + 1 come together, with the two halves of 32 columns.
__device__ __forceinline__ void write_run(XForm form, const float (&x)[16], uint8_t* row,
                                          uint32_t n_in, uint32_t first) {
  if (form == XForm::kBytes || form == XForm::kBytesOf32) {
    write_bytes(x, row, n_in, first, form == XForm::kBytesOf32);
  } else {
    write_halves(x, row, first, form == XForm::kF16);
  }
}
// Columns [first, first + 16) of a row of n; zeros behind the last one.
__device__ __forceinline__ void read_run(const float* row, uint32_t first, uint32_t n,
                                         float (&values)[16]) {
  const float* const from = row + first;
  if (first + 16 <= n && reinterpret_cast<uintptr_t>(from) % 16 == 0) {
    BP_UNROLL
    for (uint32_t i = 0; i < 4; ++i) {
      const float4 four = reinterpret_cast<const float4*>(from)[i];
      values[4 * i] = four.x, values[4 * i + 1] = four.y;
      values[4 * i + 2] = four.z, values[4 * i + 3] = four.w;
    }
    return;
  }
  BP_UNROLL
  for (uint32_t i = 0; i < 16; ++i) values[i] = first + i < n ? from[i] : 0;
}
// Columns that a row has in its new form.
__device__ __forceinline__ uint32_t columns_of_form(XForm form, uint32_t n_in) {
  const bool is_bytes = form == XForm::kBytes || form == XForm::kBytesOf32;
  return is_bytes ? n_in : (n_in + kTileDepth - 1) / kTileDepth * kTileDepth;
}

}  // namespace bp::cuda
