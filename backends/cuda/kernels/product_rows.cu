// Up to 8 rows of floats by weights widened to floats, of plain types below f32 one row: a warp for
// two or four columns of y, whose weights are read 8 or 16 columns of x at a time.

#include "backends/cuda/kernels/formats/all.cuh"
#include "backends/cuda/kernels/product_place.cuh"

namespace bp::cuda {

namespace {

// Columns [first, first + 8) of x. What lies behind the last one is not read: it may be a NaN. A
// group's part of x may begin anywhere.
__device__ __forceinline__ void load_x(const float* x, uint32_t first, uint32_t n, bool is_aligned,
                                       Eight& out) {
  if (is_aligned && first + 8 <= n) {
    const float4 a = *reinterpret_cast<const float4*>(x + first);
    const float4 b = *reinterpret_cast<const float4*>(x + first + 4);
    out[0] = a.x, out[1] = a.y, out[2] = a.z, out[3] = a.w;
    out[4] = b.x, out[5] = b.y, out[6] = b.z, out[7] = b.w;
    return;
  }
  BP_UNROLL
  for (uint32_t i = 0; i < 8; ++i) out[i] = first + i < n ? x[first + i] : 0;
}

// What a lane reads of a weight's row at a time: eights of columns.
template <bp_dtype kDtype, uint32_t kEights = columns_of_lane(kDtype) / 8>
struct Read {
  Eight values;
  __device__ void load(const Matrix& m, const uint8_t* row, uint32_t piece) {
    read_group<kDtype>(m, row, piece, values);
  }
  __device__ void widen(uint32_t, Eight& out) const {
    BP_UNROLL
    for (uint32_t k = 0; k < 8; ++k) out[k] = values[k];
  }
};
// Narrow floats as they are stored; rows are whole pieces of 16 bytes.
struct ReadBits {
  uint4 bits;
  __device__ void load(const Matrix&, const uint8_t* row, uint32_t piece) {
    bits = load_16(row + piece * 16);
  }
};
template <float (*kWiden)(uint16_t)>
struct ReadHalves : ReadBits {
  __device__ void widen(uint32_t, Eight& out) const { widen_halves<kWiden>(bits, out); }
};
template <>
struct Read<BP_DTYPE_F16> : ReadHalves<f16_value> {};
template <>
struct Read<BP_DTYPE_BF16> : ReadHalves<bf16_value> {};
template <bp_dtype kDtype>
struct Read<kDtype, 2> : ReadBits {
  __device__ void widen(uint32_t eight, Eight& out) const {
    const uint2 half = eight == 0 ? uint2{bits.x, bits.y} : uint2{bits.z, bits.w};
    Format<kDtype>::widen(half, out);
  }
};

template <bp_dtype kDtype, uint32_t kRows>
__global__ void __launch_bounds__(kProductWarps* kWarp)
    product_rows(const __grid_constant__ ProductsParams all) {
  const PartOfBlock part_of_all = part_of_block(all, column_block(all));
  const ProductParams& p = part_of_all.p;
  const uint32_t block = part_of_all.block;
  constexpr uint32_t kColumns = product_columns_together(kDtype, kRows);
  let_next_begin();
  if (p.ids.data != nullptr) wait_for_launches_before();  // they say which weights
  const ProductPlace at = place_of<kRows, kColumns>(p, block);
  const uint32_t n_in = p.weight.n_columns;
  const uint32_t part = p.n_groups > 0 && p.x_is_shared == 0 ? at.first_row % p.n_groups : 0;
  const uint32_t row = p.n_groups > 0 ? at.first_row / p.n_groups : at.first_row;
  const float* x = p.x.data + static_cast<uint64_t>(row) * p.x.stride + part * n_in;
  const bool is_aligned = part * n_in % 4 == 0;
  float sums[kRows * kColumns] = {};
  constexpr uint32_t kPiece = columns_of_lane(kDtype);
  const uint32_t n_pieces = (n_in + kPiece - 1) / kPiece;
  Read<kDtype> next[kColumns];
  const auto load = [&](uint32_t piece) {
    if (piece >= n_pieces) return;
    BP_UNROLL
    for (uint32_t c = 0; c < kColumns; ++c) next[c].load(p.weight, weight_row(p, at, c), piece);
  };
  const uint32_t first = at.slice * kWarp + lane_index(), step = p.n_slices * kWarp;
  load(first);
  wait_for_launches_before();
  for (uint32_t i = first; i < n_pieces; i += step) {
    Read<kDtype> read[kColumns];
    BP_UNROLL
    for (uint32_t c = 0; c < kColumns; ++c) read[c] = next[c];
    load(i + step);
    BP_UNROLL
    for (uint32_t e = 0; e < kPiece / 8; ++e) {
      Eight w[kColumns];
      BP_UNROLL
      for (uint32_t c = 0; c < kColumns; ++c) read[c].widen(e, w[c]);
      BP_UNROLL
      for (uint32_t r = 0; r < kRows; ++r) {
        if (r >= at.n_rows) break;
        Eight own;
        load_x(x + static_cast<uint64_t>(r) * p.x.stride, i * kPiece + e * 8, n_in, is_aligned,
               own);
        BP_UNROLL
        for (uint32_t c = 0; c < kColumns; ++c) {
          BP_UNROLL
          for (uint32_t k = 0; k < 8; ++k) sums[c * kRows + r] += own[k] * w[c][k];
        }
      }
    }
  }
  store_columns<kRows, kColumns>(p, at, sums);
}

}  // namespace

ProductsKernel product_rows_kernel(bp_dtype dtype, uint32_t n_rows) {
  switch (dtype) {
    case BP_DTYPE_F32:
      if (n_rows > 1) return {"product_rows_F32_8", product_rows<BP_DTYPE_F32, kProductRows>};
      return {"product_rows_F32_1", product_rows<BP_DTYPE_F32, 1>};
#define BP_CASE(NAME)   \
  case BP_DTYPE_##NAME: \
    return {"product_rows_" #NAME "_1", product_rows<BP_DTYPE_##NAME, 1>};
      BP_CUDA_SMALL_FLOAT_FORMATS(BP_CASE)
#undef BP_CASE
#define BP_CASE(NAME)   \
  case BP_DTYPE_##NAME: \
    return {"product_rows_" #NAME, product_rows<BP_DTYPE_##NAME, kProductRows>};
      BP_CUDA_OTHER_FORMATS(BP_CASE)
#undef BP_CASE
    default:
      return {};
  }
}

}  // namespace bp::cuda
