#include "backends/cuda/kernels/chosen.hpp"

#include "backends/cuda/kernels/simt.cuh"

namespace bp::cuda {

namespace {

// Where no token came of a row, id 0, which every table has: what comes of it means nothing.
__global__ void __launch_bounds__(256) put_chosen(const __grid_constant__ ChosenParams p) {
  begin_in_order();
  const uint32_t t = blockIdx.x * 256 + threadIdx.x;
  if (t >= p.n_tokens || p.tokens[t] >= 0) return;
  const bp_row_result& result = p.results[-1 - p.tokens[t]];
  const bool is_known = result.flags == 0 && static_cast<uint32_t>(result.token) < p.n_ids;
  p.tokens[t] = is_known ? result.token : 0;
}

}  // namespace

Kernel<ChosenParams> chosen_kernel() {
  return {"put_chosen", put_chosen};
}

}  // namespace bp::cuda
