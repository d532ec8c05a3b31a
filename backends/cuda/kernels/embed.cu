#include "backends/cuda/kernels/embed.hpp"

#include "backends/cuda/kernels/formats/all.cuh"

namespace bp::cuda {

namespace {

template <class F>
__global__ void __launch_bounds__(128) look_up(EmbedParams p) {
  const uint64_t t = blockIdx.x;
  const int64_t id = p.by_position != 0 ? static_cast<int64_t>(p.step->positions[t]) + p.offset
                                        : static_cast<int64_t>(p.step->tokens[t]);
  const bool is_known = id >= 0 && id < static_cast<int64_t>(p.n_table);
  const uint8_t* row = p.table.data + static_cast<uint64_t>(is_known ? id : 0) * p.table.row_bytes;
  for (uint32_t group = threadIdx.x; group < (p.table.n_columns + 7) / 8; group += blockDim.x) {
    Eight values;
    read_group<F>(row, group, p.table.grid, values);
    for (uint32_t i = 0; i < 8 && 8 * group + i < p.table.n_columns; ++i) {
      const uint32_t column = 8 * group + i;
      float y = is_known ? values[i] * p.scale : 0.0f;
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
    return {"look_up_" #NAME, look_up<Format<BP_DTYPE_##NAME>>};
    BP_CUDA_FORMATS(BP_CASE)
#undef BP_CASE
    default:
      return {};
  }
}

}  // namespace bp::cuda
