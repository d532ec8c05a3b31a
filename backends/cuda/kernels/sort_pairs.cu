#include "backends/cuda/kernels/experts.hpp"
#include "backends/cuda/kernels/product_place.cuh"

namespace bp::cuda {

namespace {

__device__ __forceinline__ uint32_t matrix_of(const SortPairsParams& p, uint32_t pair) {
  const uint64_t row = pair / p.n_groups;
  const uint32_t g = pair % p.n_groups;
  return p.ids.data == nullptr ? g : matrix_of_id(p.ids.data[row * p.ids.stride + g], p.n_matrices);
}

// Which place a pair has among those of its matrix is left to chance: rows of a product do not know
// their neighbours.
__global__ void __launch_bounds__(1024) sort_pairs(const __grid_constant__ SortPairsParams p) {
  begin_in_order();
  BP_DYNAMIC_SHARED(shared_bytes);
  __shared__ uint32_t n_tiles;
  auto* const places = reinterpret_cast<uint32_t*>(shared_bytes);  // [n_matrices]
  uint32_t* const first_tile = places + p.n_matrices;              // [n_matrices]
  const uint32_t n_pairs = p.n_rows * p.n_groups;
  for (uint32_t m = threadIdx.x; m < p.n_matrices; m += blockDim.x) places[m] = 0;
  __syncthreads();
  for (uint32_t i = threadIdx.x; i < n_pairs; i += blockDim.x) {
    atomicAdd(&places[matrix_of(p, i)], 1u);
  }
  __syncthreads();
  if (warp_index() == 0) {
    uint32_t pairs_before = 0, tiles_before = 0;
    for (uint32_t m0 = 0; m0 < p.n_matrices; m0 += kWarp) {
      const uint32_t m = m0 + lane_index(), n = m < p.n_matrices ? places[m] : 0;
      const Scan pairs = scan_warp(n), tiles = scan_warp((n + kTileRows - 1) / kTileRows);
      if (m < p.n_matrices) {
        places[m] = pairs_before + pairs.before;
        first_tile[m] = tiles_before + tiles.before;
      }
      pairs_before += pairs.total;
      tiles_before += tiles.total;
    }
    if (lane_index() == 0) n_tiles = tiles_before;
  }
  __syncthreads();
  for (uint32_t m = threadIdx.x; m < p.n_matrices; m += blockDim.x) {
    const uint32_t last = m + 1 < p.n_matrices ? places[m + 1] : n_pairs;
    uint32_t tile = first_tile[m];
    for (uint32_t at = places[m]; at < last; at += kTileRows, ++tile) {
      p.matrices[tile] = m;
      p.first[tile] = at;
      p.end[tile] = min(at + kTileRows, last);
    }
  }
  const uint32_t most = (n_pairs + kTileRows - 1) / kTileRows + p.n_matrices;
  for (uint32_t t = n_tiles + threadIdx.x; t < most; t += blockDim.x) p.matrices[t] = p.n_matrices;
  __syncthreads();
  for (uint32_t i = threadIdx.x; i < n_pairs; i += blockDim.x) {
    p.pairs[atomicAdd(&places[matrix_of(p, i)], 1u)] = i;
  }
}

}  // namespace

Kernel<SortPairsParams> sort_pairs_kernel() {
  return {"sort_pairs", sort_pairs};
}

}  // namespace bp::cuda
