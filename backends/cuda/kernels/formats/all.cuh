#pragma once
// Every format, and the reading of a row piece by piece.

#include "backends/cuda/kernels/formats/code_books.cuh"
#include "backends/cuda/kernels/formats/families.hpp"
#include "backends/cuda/kernels/formats/packed_of_256.cuh"
#include "backends/cuda/kernels/formats/plain.cuh"
#include "backends/cuda/kernels/formats/small.cuh"

namespace bp::cuda {

// Columns 8 * group to 8 * group + 7 of a row of a type that is not in planes.
template <bp_dtype kDtype>
__device__ __forceinline__ void read_group(const Matrix& matrix, const uint8_t* row, uint32_t group,
                                           Eight& out) {
  using F = Format<kDtype>;
  constexpr uint32_t kGroups = F::kElements / 8;
  F::read(row + static_cast<uint64_t>(group / kGroups) * F::kBytes, group % kGroups * 8,
          matrix.grid, out);
}

// As many values as are cheapest read together: two runs of 16, or eight.
template <bp_dtype kDtype, bool kIsPacked = is_in_planes(kDtype)>
struct Piece;

template <bp_dtype kDtype>
struct Piece<kDtype, true> {
  static constexpr uint32_t kValues = kChunk;
  float values[kValues];
  uint32_t first;  // column of value 0

  __device__ void read(const Matrix& matrix, const uint8_t* row, uint32_t piece) {
    using P = Packed<kDtype>;
    typename P::Raw raw;
    Chunk chunk;
    P::load({row, matrix.n_columns / P::kElements}, piece, raw);
    P::unpack(raw, piece, chunk);
    first = P::first_of_run0(piece);
    BP_UNROLL
    for (uint32_t i = 0; i < kValues; ++i) {
      const auto q = static_cast<float>(static_cast<int8_t>(chunk.q[i / 4] >> (i % 4 * 8)));
      values[i] = chunk.scale[i / kRun] * q;
      if constexpr (P::kHasMinimum) values[i] -= chunk.minimum[i / kRun];
    }
  }
  __device__ uint32_t column(uint32_t i) const {
    return first + i / kRun * Packed<kDtype>::kRunDistance + i % kRun;
  }
};

template <bp_dtype kDtype>
struct Piece<kDtype, false> {
  static constexpr uint32_t kValues = 8;
  float values[kValues];
  uint32_t first;

  __device__ void read(const Matrix& matrix, const uint8_t* row, uint32_t piece) {
    read_group<kDtype>(matrix, row, piece, values);
    first = 8 * piece;
  }
  __device__ uint32_t column(uint32_t i) const { return first + i; }
};

}  // namespace bp::cuda
