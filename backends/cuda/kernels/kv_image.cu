#include "backends/cuda/kernels/kv_image.hpp"

#include "backends/cuda/kernels/kv.cuh"

namespace bp::cuda {

namespace {

// Calls f(row of the cache, row of the image, unit) for all units of all heads of a position.
template <class F>
__device__ __forceinline__ void for_each_unit(const KvImageParams& p, uint32_t n_units, F&& f) {
  const uint32_t position = blockIdx.x, image = blockIdx.y;
  const auto block = static_cast<uint32_t>(p.blocks[image]);
  uint8_t* rows = p.images + image * p.image_bytes +
                  static_cast<uint64_t>(position) * p.plane.n_heads * p.row_bytes;
  for (uint32_t i = threadIdx.x; i < p.plane.n_heads * n_units; i += blockDim.x) {
    const uint32_t head = i / n_units;
    f(kv_row(p.plane, block, head, position), rows + static_cast<uint64_t>(head) * p.row_bytes,
      i % n_units);
  }
}

template <class Unit, bool kToImage>
__global__ void __launch_bounds__(128) move_rows(const __grid_constant__ KvImageParams p) {
  begin_in_order();
  constexpr auto kUnitBytes = static_cast<uint32_t>(sizeof(Unit));
  for_each_unit(p, p.row_bytes / kUnitBytes, [](uint8_t* kept, uint8_t* row, uint32_t unit) {
    auto* a = reinterpret_cast<Unit*>(kept) + unit;
    auto* b = reinterpret_cast<Unit*>(row) + unit;
    if constexpr (kToImage) {
      *b = *a;
    } else {
      *a = *b;
    }
  });
}

// Units are halves of q8_0's blocks: a scale, then 16 pairs of dimensions.
template <bool kToImage>
__global__ void __launch_bounds__(128) move_q8_0(const __grid_constant__ KvImageParams p) {
  begin_in_order();
  constexpr uint32_t kUnits = 17;
  for_each_unit(p, p.row_bytes / 2, [&](uint8_t* kept, uint8_t* row, uint32_t unit) {
    auto* to = reinterpret_cast<uint16_t*>(row) + unit;
    const uint32_t block = unit / kUnits, pair = unit % kUnits;
    if (pair == 0) {
      uint16_t* scale = kv_scales(p.plane, kept) + block;
      if constexpr (kToImage) {
        *to = *scale;
      } else {
        *scale = *to;
      }
      return;
    }
    const uint32_t first = block * 32 + (pair - 1) * 2;
    for (uint32_t i = 0; i < 2; ++i) {
      const bool is_real = first + i < p.plane.head_dim;
      uint8_t* number = reinterpret_cast<uint8_t*>(to) + i;
      if constexpr (kToImage) {
        *number = is_real ? kept[first + i] : uint8_t{0};
      } else if (is_real) {
        kept[first + i] = *number;
      }
    }
  });
}

template <bool kToImage>
Kernel<KvImageParams> kernel_of(const KvImageParams& p) {
#define BP_CUDA_NAMED(name) kToImage ? "kv_export_" name : "kv_import_" name
  if (p.plane.dtype == BP_DTYPE_Q8_0) return {BP_CUDA_NAMED("q8_0"), move_q8_0<kToImage>};
  if (p.row_bytes % 16 == 0) return {BP_CUDA_NAMED("rows_16"), move_rows<uint4, kToImage>};
  if (p.row_bytes % 2 == 0) return {BP_CUDA_NAMED("rows_2"), move_rows<uint16_t, kToImage>};
  return {BP_CUDA_NAMED("rows_1"), move_rows<uint8_t, kToImage>};
#undef BP_CUDA_NAMED
}

}  // namespace

Kernel<KvImageParams> kv_export_kernel(const KvImageParams& p) {
  return kernel_of<true>(p);
}

Kernel<KvImageParams> kv_import_kernel(const KvImageParams& p) {
  return kernel_of<false>(p);
}

}  // namespace bp::cuda
