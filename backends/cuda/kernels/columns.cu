#include "backends/cuda/kernels/columns.hpp"

#include "backends/cuda/kernels/simt.cuh"

namespace bp::cuda {

namespace {

__global__ void __launch_bounds__(256) copy_columns(const __grid_constant__ ColumnsParams p) {
  begin_in_order();
  const uint64_t row = blockIdx.x;
  const uint64_t source = p.step == nullptr ? row : p.step->output_rows[p.output][row];
  const uint32_t end = min(p.n_groups * p.n, (blockIdx.y + 1) * 1024);
  for (uint32_t i = blockIdx.y * 1024 + threadIdx.x; i < end; i += 256) {
    const uint32_t group = i / p.n, column = i % p.n;
    p.y.data[row * p.y.stride + group * p.y_part + p.y_first + column] =
        p.x.data[source * p.x.stride + group * p.x_part + p.x_first + column];
  }
}

}  // namespace

Kernel<ColumnsParams> columns_kernel() {
  return {"copy_columns", copy_columns};
}

}  // namespace bp::cuda
