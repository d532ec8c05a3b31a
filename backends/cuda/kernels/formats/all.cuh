#pragma once
// Every format, and the choice of one by dtype.

#include "backends/cuda/kernels/formats/blocks_of_256.cuh"
#include "backends/cuda/kernels/formats/blocks_of_32.cuh"
#include "backends/cuda/kernels/formats/code_books.cuh"
#include "backends/cuda/kernels/formats/plain.cuh"
#include "backends/cuda/kernels/formats/small.cuh"

// X(NAME) for each type that weights may have.
#define BP_CUDA_FORMATS(X)                                                                      \
  X(F32)                                                                                        \
  X(F16) X(BF16) X(F8_E4M3) X(F8_E5M2) X(Q4_0) X(Q4_1) X(Q5_0) X(Q5_1) X(Q8_0) X(Q8_1) X(Q2_K)  \
      X(Q3_K) X(Q4_K) X(Q5_K) X(Q6_K) X(Q8_K) X(IQ2_XXS) X(IQ2_XS) X(IQ2_S) X(IQ3_XXS) X(IQ3_S) \
          X(IQ1_S) X(IQ1_M) X(IQ4_NL) X(IQ4_XS) X(MXFP4) X(NVFP4) X(TQ1_0) X(TQ2_0) X(Q1_0)     \
              X(Q2_0)

namespace bp::cuda {

// Columns 8 * group to 8 * group + 7 of a row.
template <class F>
__device__ __forceinline__ void read_group(const uint8_t* row, uint32_t group, const void* grid,
                                           Eight& out) {
  constexpr uint32_t kGroups = F::kElements / 8;
  F::read(row + static_cast<uint64_t>(group / kGroups) * F::kBytes, group % kGroups * 8, grid, out);
}

}  // namespace bp::cuda
