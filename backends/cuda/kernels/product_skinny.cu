// 2 to 32 rows of floats by weights of 8 and 16 bits: a block for 16 columns of y, whose weights go
// from memory to the registers of tensor cores. They are what takes time, so nothing waits for
// anything until all of them are read: warps take turns along the columns of x, and meet once.

#include "backends/cuda/kernels/formats/families.hpp"
#include "backends/cuda/kernels/formats/plain.cuh"
#include "backends/cuda/kernels/product_place.cuh"

namespace bp::cuda {

namespace {

constexpr uint32_t kPiece = 32;  // columns of x of two products, 8 of each lane
constexpr uint32_t kPiecesAtOnce = 4;
constexpr uint32_t kTile = 8;  // rows of x of a product

// 8 columns of a weight's row, as pairs of 16-bit floats.
template <bp_dtype kDtype>
struct Eights {
  static constexpr uint32_t kBytes = 16;
  __device__ static uint4 load(const uint8_t* at) { return stream_16(at); }
};
template <float2 (*kWiden)(uint32_t)>
struct EightsOfBytes {
  static constexpr uint32_t kBytes = 8;
  __device__ static uint4 load(const uint8_t* at) {
    return widen_to_bf16<kWiden>(*reinterpret_cast<const uint2*>(at));
  }
};
template <>
struct Eights<BP_DTYPE_F8_E4M3> : EightsOfBytes<e4m3_pair> {};
template <>
struct Eights<BP_DTYPE_F8_E5M2> : EightsOfBytes<e5m2_pair> {};

// Which columns of x stand in which place of k does not matter to a sum, as long as both sides have
// the same: so a lane's four pairs of neighbours are the lower and upper halves of two products.
template <bp_dtype kDtype>
__device__ __forceinline__ void multiply(float (&sums)[4], const uint4& w, const uint4& w_8_on,
                                         const uint4& x) {
  constexpr bool kIsF16 = kDtype == BP_DTYPE_F16;
  multiply_halves<kIsF16>(sums, {w.x, w_8_on.x, w.y, w_8_on.y}, x.x, x.y);
  multiply_halves<kIsF16>(sums, {w.z, w_8_on.z, w.w, w_8_on.w}, x.z, x.w);
}

// The row of the weight for column c of the block's 16: with `up` its own 8 follow the gate's.
__device__ __forceinline__ const uint8_t* row_of_column(const ProductParams& p, uint32_t block,
                                                        uint32_t c) {
  const uint32_t n_of_block = skinny_columns(p);
  const uint64_t column = min(block * n_of_block + c % n_of_block, p.n_columns - 1);
  if (c >= n_of_block) return p.up + column * p.weight.row_bytes;
  return p.weight.data + (p.first_column + column) * p.weight.row_bytes;
}

template <uint32_t kTiles>
using SkinnySums = float[kSkinnyWarps][kSkinnyColumns][kTiles * kTile];

// All warps' sums, in their order, finished and stored.
template <uint32_t kTiles>
__device__ __forceinline__ void store_sums(const ProductParams& p, uint32_t block,
                                           const SkinnySums<kTiles>& sums) {
  const auto sum_of = [&](uint32_t c, uint32_t row) {
    float sum = 0;
    BP_UNROLL
    for (uint32_t w = 0; w < kSkinnyWarps; ++w) sum += sums[w][c][row];
    return sum;
  };
  const uint32_t n_of_block = skinny_columns(p);
  Epilogue of_up = p.epilogue;
  of_up.bias = p.up_bias;
  for (uint32_t i = threadIdx.x; i < n_of_block * p.n_rows; i += blockDim.x) {
    const uint32_t c = i % n_of_block, row = i / n_of_block, column = block * n_of_block + c;
    if (column >= p.n_columns) continue;
    float y = finish(p.epilogue, sum_of(c, row), column);
    if (p.up != nullptr) {
      y = activate(p.gate_activation, y) * finish(of_up, sum_of(c + n_of_block, row), column);
    }
    y_row(p, row)[column] = y;
  }
}

template <bp_dtype kDtype, uint32_t kTiles>
__global__ void __launch_bounds__(kSkinnyWarps* kWarp)
    product_skinny(const __grid_constant__ ProductsParams all) {
  __shared__ SkinnySums<kTiles> sums;
  const PartOfBlock part_of_all = part_of_block(all, blockIdx.x);
  const ProductParams& p = part_of_all.p;
  let_next_begin();
  const uint32_t group = lane_index() / 4, own = lane_index() % 4 * 8;
  const uint8_t* const w = row_of_column(p, part_of_all.block, group);
  const uint8_t* const w_8_on = row_of_column(p, part_of_all.block, group + 8);
  const uint8_t* x[kTiles];
  BP_UNROLL
  for (uint32_t t = 0; t < kTiles; ++t) {
    x[t] = p.prepared.data + min(t * kTile + group, p.n_rows - 1) * p.prepared.stride_bytes;
  }
  const uint32_t n_in = p.weight.n_columns, n_pieces = (n_in + kPiece - 1) / kPiece;
  using E = Eights<kDtype>;
  uint4 a[kPiecesAtOnce], a_8_on[kPiecesAtOnce];
  const auto load = [&](uint32_t piece) {
    BP_UNROLL
    for (uint32_t i = 0; i < kPiecesAtOnce; ++i) {
      const uint32_t first = (piece + i) * kPiece + own;
      a[i] = a_8_on[i] = {0, 0, 0, 0};
      if (first >= n_in) continue;
      a[i] = E::load(w + first / 8 * E::kBytes);
      a_8_on[i] = E::load(w_8_on + first / 8 * E::kBytes);
    }
  };
  float own_sums[kTiles][4] = {};
  load(warp_index() * kPiecesAtOnce);
  wait_for_launches_before();
  for (uint32_t piece = warp_index() * kPiecesAtOnce; piece < n_pieces;
       piece += kSkinnyWarps * kPiecesAtOnce) {
    uint4 w_now[kPiecesAtOnce], w_now_8_on[kPiecesAtOnce];
    BP_UNROLL
    for (uint32_t i = 0; i < kPiecesAtOnce; ++i) w_now[i] = a[i], w_now_8_on[i] = a_8_on[i];
    load(piece + kSkinnyWarps * kPiecesAtOnce);
    BP_UNROLL
    for (uint32_t i = 0; i < kPiecesAtOnce; ++i) {
      if (piece + i >= n_pieces) break;
      BP_UNROLL
      for (uint32_t t = 0; t < kTiles; ++t) {
        const uint4 b = *reinterpret_cast<const uint4*>(x[t] + ((piece + i) * kPiece + own) * 2);
        multiply<kDtype>(own_sums[t], w_now[i], w_now_8_on[i], b);
      }
    }
  }
  BP_UNROLL
  for (uint32_t t = 0; t < kTiles; ++t) {
    const uint32_t row = t * kTile + lane_index() % 4 * 2;
    sums[warp_index()][group][row] = own_sums[t][0];
    sums[warp_index()][group][row + 1] = own_sums[t][1];
    sums[warp_index()][group + 8][row] = own_sums[t][2];
    sums[warp_index()][group + 8][row + 1] = own_sums[t][3];
  }
  __syncthreads();
  store_sums<kTiles>(p, part_of_all.block, sums);
}

}  // namespace

ProductsKernel skinny_kernel(bp_dtype dtype, uint32_t n_rows) {
  switch (dtype) {
#define BP_CASE(NAME)                                                                             \
  case BP_DTYPE_##NAME:                                                                           \
    if (n_rows <= 8) return {"product_skinny_" #NAME "_8", product_skinny<BP_DTYPE_##NAME, 1>};   \
    if (n_rows <= 16) return {"product_skinny_" #NAME "_16", product_skinny<BP_DTYPE_##NAME, 2>}; \
    return {"product_skinny_" #NAME "_32", product_skinny<BP_DTYPE_##NAME, 4>};
    BP_CUDA_SMALL_FLOAT_FORMATS(BP_CASE)
#undef BP_CASE
    default:
      return {};
  }
}

}  // namespace bp::cuda
