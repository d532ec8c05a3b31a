#include "backends/cuda/kernels/kv.cuh"

namespace bp::cuda {

namespace {

template <bp_dtype kDtype>
__global__ void __launch_bounds__(128) write_kv(const __grid_constant__ KvWriteParams p) {
  begin_in_order();
  const uint32_t t = blockIdx.x, head = blockIdx.y * 4 + warp_index();
  const KvWriteParams::Part& part = p.parts[blockIdx.z];
  const KvPlane& plane = part.plane;
  if (head >= plane.n_heads || !is_running(*p.step, t)) return;
  const float* x = part.x.data + static_cast<uint64_t>(t) * part.x.stride + head * plane.head_dim;
  store_head<kDtype>(plane, x, kv_row_of_token(*p.step, p.group, plane, t, head));
}

}  // namespace

Kernel<KvWriteParams> kv_write_kernel(bp_dtype dtype) {
  switch (dtype) {
#define BP_CASE(NAME)   \
  case BP_DTYPE_##NAME: \
    return {"write_kv_" #NAME, write_kv<BP_DTYPE_##NAME>};
    BP_CUDA_KV_FORMATS(BP_CASE)
#undef BP_CASE
    default:
      return {};
  }
}

}  // namespace bp::cuda
