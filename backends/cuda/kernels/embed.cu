#include "backends/cuda/kernels/embed.hpp"

#include "backends/cuda/kernels/formats/all.cuh"

namespace bp::cuda {

namespace {

__device__ __forceinline__ int64_t row_of(const EmbedParams& p, uint32_t t) {
  if (p.by == RowsBy::kToken) return p.step->tokens[t];
  const uint32_t i = p.by == RowsBy::kNumber ? t : static_cast<uint32_t>(p.step->positions[t]);
  return static_cast<int64_t>(i) + p.offset;
}

// Eight neighbouring columns of bf16.
__device__ __forceinline__ void write_bf16(const float* values, uint8_t* at) {
  *reinterpret_cast<uint4*>(at) = {pack_bf16(values[0], values[1]), pack_bf16(values[2], values[3]),
                                   pack_bf16(values[4], values[5]),
                                   pack_bf16(values[6], values[7])};
}

template <bp_dtype kDtype>
__global__ void __launch_bounds__(128) look_up(const __grid_constant__ EmbedParams p) {
  begin_in_order();
  using Values = Piece<kDtype>;
  const uint64_t t = blockIdx.x;
  const int64_t id = row_of(p, blockIdx.x);
  const bool is_known = id >= 0 && id < static_cast<int64_t>(p.n_table);
  const uint8_t* row = p.table.data + static_cast<uint64_t>(is_known ? id : 0) * p.table.row_bytes;
  const uint32_t n = p.table.n_columns;
  for (uint32_t i = threadIdx.x; i < (n + Values::kValues - 1) / Values::kValues; i += blockDim.x) {
    Values piece;
    piece.read(p.table, row, i);
    if (p.bf16 != nullptr) {
      BP_UNROLL
      for (uint32_t v = 0; v < Values::kValues; v += 8) {
        write_bf16(piece.values + v, p.bf16 + t * p.bf16_row_bytes + piece.column(v) * 2);
      }
      continue;
    }
    BP_UNROLL
    for (uint32_t v = 0; v < Values::kValues; ++v) {
      const uint32_t column = piece.column(v);
      if (column >= n) break;
      float y = is_known ? piece.values[v] * p.scale : 0.0f;
      if (p.x.data != nullptr) y += p.x.data[t * p.x.stride + column];
      p.y.data[t * p.y.stride + column] = y;
    }
  }
}

}  // namespace

Kernel<EmbedParams> embed_kernel(bp_dtype dtype) {
  switch (dtype) {
#define BP_CASE(NAME)   \
  case BP_DTYPE_##NAME: \
    return {"look_up_" #NAME, look_up<BP_DTYPE_##NAME>};
    BP_CUDA_FORMATS(BP_CASE)
#undef BP_CASE
    default:
      return {};
  }
}

}  // namespace bp::cuda
