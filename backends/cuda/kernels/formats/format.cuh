#pragma once
// How eight neighbouring values of a weight's row are read. A format has
//   kElements, kBytes      of a block; plain types count 8 elements as a block
//   read(block, first, grid, out)   values first to first + 7 of a block; first is a multiple of 8
// Blocks are those of GGUF, byte for byte; see each for its fields.

#include "backends/cuda/kernels/ptx.cuh"
#include "backplane/dtype.h"

namespace bp::cuda {

using Eight = float[8];

template <bp_dtype kDtype>
struct Format;

#define BP_FORMAT_SIZES(elements, bytes)          \
  static constexpr uint32_t kElements = elements; \
  static constexpr uint32_t kBytes = bytes

__device__ __forceinline__ uint32_t load_u16(const uint8_t* at) {
  return *reinterpret_cast<const uint16_t*>(at);
}
// From an address that is a multiple of 2.
__device__ __forceinline__ uint32_t load_u32(const uint8_t* at) {
  return load_u16(at) | load_u16(at + 2) << 16;
}
__device__ __forceinline__ float load_f16(const uint8_t* at) {
  return f16_value(static_cast<uint16_t>(load_u16(at)));
}
__device__ __forceinline__ int32_t load_s8(const uint8_t* at) {
  return static_cast<int8_t>(*at);
}

}  // namespace bp::cuda
