#include "backends/cuda/kernels/flash.hpp"
#include "backends/cuda/kernels/positions.cuh"

namespace bp::cuda {

namespace {

constexpr uint32_t kItemsWarps = 8;

struct Sums {
  uint32_t a, b;
};
// Over all threads before this one, and over all.
struct BlockScan {
  Sums before, total;
};
__device__ __forceinline__ BlockScan scan_block(uint32_t a, uint32_t b, Sums* scratch) {
  const Scan of_a = scan_warp(a), of_b = scan_warp(b);
  __syncthreads();
  if (lane_index() == 0) scratch[warp_index()] = {of_a.total, of_b.total};
  __syncthreads();
  BlockScan scan{{of_a.before, of_b.before}, {0, 0}};
  for (uint32_t w = 0; w < kItemsWarps; ++w) {
    if (w < warp_index()) scan.before.a += scratch[w].a, scan.before.b += scratch[w].b;
    scan.total.a += scratch[w].a;
    scan.total.b += scratch[w].b;
  }
  return scan;
}

struct Queries {
  uint32_t first, n_tokens;
  uint32_t n_tiles;  // of positions, where the sequence has one tile of queries and may be split
};
__device__ __forceinline__ Queries queries_of(const FlashItemsParams& p, uint32_t s) {
  const StepView& step = *p.step;
  if (s >= step.n_seqs) return {0, 0, 0};
  const uint32_t first = step.query_start[s], n = step.query_start[s + 1] - first;
  if (n == 0 || n > p.tokens_of_tile) return {first, n, 0};
  const uint32_t begin = visible(p, first, s).begin / kFlashPositions;
  return {first, n, divide_up(visible(p, first + n - 1, s).end, kFlashPositions) - begin};
}

// Tiles of positions of a part, of which longer sequences have several. A part takes a slot for
// each of its tokens: n tokens by l tiles take n * l / tiles_of_part + n at most, and all of them
// n_slots. Those that the guess calls longer have fewer tokens than there are slots.
__device__ __forceinline__ uint32_t tiles_of_part(const FlashItemsParams& p, Sums* scratch) {
  if (p.n_slots < 2) return ~0u;
  uint32_t work = 0;
  for (uint32_t s0 = 0; s0 < p.step->n_seqs; s0 += blockDim.x) {
    const Queries q = queries_of(p, s0 + threadIdx.x);
    work += scan_block(q.n_tokens * q.n_tiles, 0, scratch).total.a;
  }
  const uint32_t guess = max(divide_up(work, p.n_slots), 1u);
  uint32_t n_tokens = 0;
  for (uint32_t s0 = 0; s0 < p.step->n_seqs; s0 += blockDim.x) {
    const Queries q = queries_of(p, s0 + threadIdx.x);
    n_tokens += scan_block(q.n_tiles > guess ? q.n_tokens : 0, 0, scratch).total.a;
  }
  return n_tokens < p.n_slots ? max(divide_up(work, p.n_slots - n_tokens), 1u) : ~0u;
}

__global__ void __launch_bounds__(kItemsWarps* kWarp)
    list_flash_items(const __grid_constant__ FlashItemsParams p) {
  begin_in_order();
  __shared__ Sums scratch[kItemsWarps];
  const StepView& step = *p.step;
  const uint32_t most_tiles = tiles_of_part(p, scratch);
  uint32_t n_items = 0, n_slots = 0;
  for (uint32_t s0 = 0; s0 < step.n_seqs; s0 += blockDim.x) {
    const uint32_t s = s0 + threadIdx.x;
    const Queries q = queries_of(p, s);
    const uint32_t n_splits =
        q.n_tiles > most_tiles ? min(divide_up(q.n_tiles, most_tiles), kMaxFlashSplits) : 1;
    const uint32_t n_own = divide_up(q.n_tokens, p.tokens_of_tile) * n_splits;
    const BlockScan scan = scan_block(n_own, n_splits > 1 ? q.n_tokens * n_splits : 0, scratch);
    const uint32_t slot = n_slots + scan.before.b;
    FlashItem* const items = p.work.items + n_items + scan.before.a;
    // Those that see most come first.
    for (uint32_t i = 0; i < n_own; ++i) {
      const uint32_t token = (n_own - 1 - i) / n_splits * p.tokens_of_tile;
      items[i] = {
          s,   q.first + token, min(p.tokens_of_tile, q.n_tokens - token), i % n_splits, n_splits,
          slot};
    }
    if (s < step.n_seqs) p.work.splits[s] = {slot, n_splits};
    n_items += scan.total.a;
    n_slots += scan.total.b;
  }
  const uint32_t n_padding = p.n_rows - step.n_tokens,
                 n_own = divide_up(n_padding, p.tokens_of_tile);
  for (uint32_t i = threadIdx.x; i < n_own; i += blockDim.x) {
    const uint32_t token = i * p.tokens_of_tile;
    p.work.items[n_items + i] = {
        step.n_seqs, step.n_tokens + token, min(p.tokens_of_tile, n_padding - token), 0, 1, 0};
  }
  if (threadIdx.x != 0) return;
  p.work.splits[step.n_seqs] = {0, 1};
  *p.work.n_items = n_items + n_own;
}

}  // namespace

Kernel<FlashItemsParams> flash_items_kernel() {
  return {"list_flash_items", list_flash_items};
}

}  // namespace bp::cuda
