#include "backends/cuda/kernels/kv.hpp"

#include "backends/cuda/kernels/kv.cuh"

namespace bp::cuda {

namespace {

// One warp, one head. Every lane takes part in shuffles.
template <bp_dtype kDtype>
__device__ __forceinline__ void store(const KvPlane& plane, const float* x, uint8_t* row) {
  for (uint32_t first = 0; first < plane.head_dim; first += kWarp) {
    const uint32_t d = first + lane_index();
    const bool is_real = d < plane.head_dim;
    const float value = is_real ? x[d] : 0.0f;
    if constexpr (kDtype == BP_DTYPE_Q8_0) {
      // A NaN among the 32 makes all of them NaN, by their scale.
      const bool is_nan = __any_sync(kAllLanes, value != value);
      const float scale = is_nan ? __uint_as_float(0x7fc00000u) : warp_max(fabsf(value)) / 127.0f;
      const float inverse = scale >= 1.17549435e-38f ? 1 / scale : 0;
      if (is_real) row[d] = static_cast<uint8_t>(__float2int_rn(value * inverse));
      if (lane_index() == 0) kv_scales(plane, row)[first / kWarp] = f16_bits(scale);
    } else if (is_real) {
      if constexpr (kDtype == BP_DTYPE_F32) reinterpret_cast<float*>(row)[d] = value;
      if constexpr (kDtype == BP_DTYPE_F16) reinterpret_cast<uint16_t*>(row)[d] = f16_bits(value);
      if constexpr (kDtype == BP_DTYPE_BF16) reinterpret_cast<uint16_t*>(row)[d] = bf16_bits(value);
      if constexpr (kDtype == BP_DTYPE_F8_E4M3) row[d] = e4m3_bits(value);
    }
  }
}

template <bp_dtype kDtype>
__global__ void __launch_bounds__(128) write_kv(KvWriteParams p) {
  const uint32_t t = blockIdx.x, head = blockIdx.y * 4 + warp_index();
  const KvWriteParams::Part part = blockIdx.z == 0 ? p.parts[0] : p.parts[1];
  const KvPlane& plane = part.plane;
  const uint32_t sequence = p.step->sequence_of[t];
  if (head >= plane.n_heads || p.step->is_running[sequence] == 0) return;
  const auto position = static_cast<uint32_t>(p.step->positions[t]);
  const StepView::BlockTable& table = p.step->tables[p.group];
  const int32_t block = table.blocks[sequence * table.stride + position / plane.block_size];
  const float* x = part.x.data + static_cast<uint64_t>(t) * part.x.stride + head * plane.head_dim;
  store<kDtype>(plane, x,
                kv_row(plane, static_cast<uint32_t>(block), head, position % plane.block_size));
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
