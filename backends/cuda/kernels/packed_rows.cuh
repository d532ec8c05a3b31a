#pragma once
// Up to 8 rows of bytes by weights in planes: chunks of 32 columns of x by integer products, each
// run of 16 scaled by itself. While a chunk is multiplied the next one is on its way.

#include "backends/cuda/kernels/formats/families.hpp"
#include "backends/cuda/kernels/formats/packed_of_256.cuh"
#include "backends/cuda/kernels/product_place.cuh"

namespace bp::cuda {

// 16 bytes of x with {scale, scale * sum}.
struct ByteRun {
  uint4 q;
  float2 scale;
};
__device__ __forceinline__ ByteRun load_run(const uint8_t* x, uint32_t n_in, uint32_t first) {
  return {load_16(x + first), reinterpret_cast<const float2*>(x + n_in)[first / kRun]};
}
__device__ __forceinline__ int32_t dot_16(const uint32_t* w, const uint4& x) {
  int32_t sum = __dp4a(static_cast<int32_t>(w[0]), static_cast<int32_t>(x.x), 0);
  sum = __dp4a(static_cast<int32_t>(w[1]), static_cast<int32_t>(x.y), sum);
  sum = __dp4a(static_cast<int32_t>(w[2]), static_cast<int32_t>(x.z), sum);
  return __dp4a(static_cast<int32_t>(w[3]), static_cast<int32_t>(x.w), sum);
}

template <bool kHasMinimum>
__device__ __forceinline__ float multiply_chunk(const Chunk& w, const ByteRun& x0,
                                                const ByteRun& x1) {
  float sum = w.scale[0] * x0.scale.x * static_cast<float>(dot_16(w.q, x0.q));
  sum += w.scale[1] * x1.scale.x * static_cast<float>(dot_16(w.q + 4, x1.q));
  if constexpr (kHasMinimum) sum -= w.minimum[0] * x0.scale.y + w.minimum[1] * x1.scale.y;
  return sum;
}

template <bp_dtype kDtype, uint32_t kRows>
__global__ void __launch_bounds__(kProductWarps* kWarp)
    packed_rows(const __grid_constant__ ProductsParams all) {
  const PartOfBlock part_of_all = part_of_block(all, column_block(all));
  const ProductParams& p = part_of_all.p;
  const uint32_t block = part_of_all.block;
  using P = Packed<kDtype>;
  constexpr uint32_t kColumns = product_columns_together(kDtype, kRows);
  let_next_begin();
  if (p.ids.data != nullptr) wait_for_launches_before();  // they say which weights
  const ProductPlace at = place_of<kRows, kColumns>(p, block);
  const uint32_t n_in = p.weight.n_columns, n_chunks = n_in / kChunk;
  const uint8_t* x = p.prepared.data + x_row(p, at.first_row) * p.prepared.stride_bytes;
  PackedRow rows[kColumns];
  BP_UNROLL
  for (uint32_t c = 0; c < kColumns; ++c) rows[c] = {weight_row(p, at, c), n_in / P::kElements};

  float sums[kRows * kColumns] = {};
  const uint32_t step = p.n_slices * kWarp;
  uint32_t chunk = at.slice * kWarp + lane_index();
  typename P::Raw raw[kColumns];
  const auto load_raw = [&] {
    if (chunk >= n_chunks) return;
    BP_UNROLL
    for (uint32_t c = 0; c < kColumns; ++c) P::load(rows[c], chunk, raw[c]);
  };
  load_raw();
  wait_for_launches_before();
  while (chunk < n_chunks) {
    Chunk w[kColumns];
    BP_UNROLL
    for (uint32_t c = 0; c < kColumns; ++c) P::unpack(raw[c], chunk, w[c]);
    const uint32_t first = P::first_of_run0(chunk);
    chunk += step;
    load_raw();
    BP_UNROLL
    for (uint32_t r = 0; r < kRows; ++r) {
      if (r >= at.n_rows) break;
      const uint8_t* x_of_row = x + r * p.prepared.stride_bytes;
      const ByteRun x0 = load_run(x_of_row, n_in, first);
      const ByteRun x1 = load_run(x_of_row, n_in, first + P::kRunDistance);
      BP_UNROLL
      for (uint32_t c = 0; c < kColumns; ++c) {
        sums[c * kRows + r] += multiply_chunk<P::kHasMinimum>(w[c], x0, x1);
      }
    }
  }
  store_columns<kRows, kColumns>(p, at, sums);
}

// The case of a switch over dtypes.
#define BP_CUDA_PACKED_ROWS_CASE(NAME)                                                    \
  case BP_DTYPE_##NAME:                                                                   \
    if (n_rows == 1) return {"packed_rows_" #NAME "_1", packed_rows<BP_DTYPE_##NAME, 1>}; \
    return {"packed_rows_" #NAME "_8", packed_rows<BP_DTYPE_##NAME, kProductRows>};

}  // namespace bp::cuda
