#pragma once
// How the common block types lie in device memory: a row is taken apart into planes, one for each
// field of its blocks, so that quants are read 16 bytes at a time whatever the size of a block.
// Other types keep their blocks as they are in the file.

#include <cstdint>

#include "backends/cuda/kernels/views.hpp"

namespace bp::cuda {

// Bytes [offset, offset + n_bytes) of each block of the file, for all blocks of a row one after
// another. The plane begins at a multiple of 16 bytes of the row.
struct Plane {
  uint32_t offset, n_bytes;
};

inline constexpr uint32_t kMaxPlanes = 4;

struct PlaneList {
  uint32_t n_planes;
  Plane planes[kMaxPlanes];
};

// No planes where the type keeps its blocks.
[[nodiscard]] constexpr PlaneList planes_of(bp_dtype dtype) {
  switch (dtype) {
    case BP_DTYPE_Q4_0:
    case BP_DTYPE_IQ4_NL:
      return {2, {{2, 16}, {0, 2}}};  // qs, d
    case BP_DTYPE_Q4_1:
      return {2, {{4, 16}, {0, 4}}};  // qs, d and m
    case BP_DTYPE_Q5_0:
      return {3, {{6, 16}, {2, 4}, {0, 2}}};  // qs, qh, d
    case BP_DTYPE_Q5_1:
      return {3, {{8, 16}, {4, 4}, {0, 4}}};  // qs, qh, d and m
    case BP_DTYPE_Q8_0:
      return {2, {{2, 32}, {0, 2}}};  // qs, d
    case BP_DTYPE_Q2_K:
      return {3, {{16, 64}, {0, 16}, {80, 4}}};  // qs, scales, d and dmin
    case BP_DTYPE_Q3_K:
      return {4, {{32, 64}, {0, 32}, {96, 12}, {108, 2}}};  // qs, hmask, scales, d
    case BP_DTYPE_Q4_K:
      return {2, {{16, 128}, {0, 16}}};  // qs; d, dmin and scales
    case BP_DTYPE_Q5_K:
      return {3, {{48, 128}, {16, 32}, {0, 16}}};  // qs; qh; d, dmin and scales
    case BP_DTYPE_Q6_K:
      return {4, {{0, 128}, {128, 64}, {192, 16}, {208, 2}}};  // ql, qh, scales, d
    case BP_DTYPE_IQ4_XS:
      return {2, {{8, 128}, {0, 8}}};  // qs; d and scales
    case BP_DTYPE_MXFP4:
      return {2, {{1, 16}, {0, 1}}};  // qs, scale
    default:
      return {0, {}};
  }
}

[[nodiscard]] constexpr bool is_in_planes(bp_dtype dtype) {
  return planes_of(dtype).n_planes > 0;
}
[[nodiscard]] constexpr bool is_fp8(bp_dtype dtype) {
  return dtype == BP_DTYPE_F8_E4M3 || dtype == BP_DTYPE_F8_E5M2;
}
[[nodiscard]] constexpr bool is_half(bp_dtype dtype) {
  return dtype == BP_DTYPE_F16 || dtype == BP_DTYPE_BF16;
}
// Floats that are each by themselves.
[[nodiscard]] constexpr bool is_plain(bp_dtype dtype) {
  return dtype == BP_DTYPE_F32 || is_half(dtype) || is_fp8(dtype);
}

[[nodiscard]] constexpr uint64_t plane_bytes(const Plane& plane, uint64_t n_blocks) {
  return (n_blocks * plane.n_bytes + 15) / 16 * 16;
}

// Of a row of n_blocks.
[[nodiscard]] constexpr uint64_t bytes_in_planes(bp_dtype dtype, uint64_t n_blocks) {
  const PlaneList list = planes_of(dtype);
  uint64_t n_bytes = 0;
  for (uint32_t i = 0; i < list.n_planes; ++i) n_bytes += plane_bytes(list.planes[i], n_blocks);
  return n_bytes;
}

}  // namespace bp::cuda
