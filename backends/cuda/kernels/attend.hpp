#pragma once
// attention and attend: any head size up to kMaxValueDim, any type of the cache. A row's result
// depends on its own sequence only, to the last bit. flash.hpp has faster kernels for most caches.

#include "backends/cuda/device/device.hpp"
#include "backends/cuda/kernels/product.hpp"
#include "backends/cuda/kernels/views.hpp"

namespace bp::cuda {

inline constexpr uint32_t kMaxValueDim = 512;  // columns of a head's result, in registers of a warp
inline constexpr uint32_t kMaxKeyDim = 4096;   // of a head's query, in shared memory
inline constexpr uint32_t kAttendWarps = 4;    // of a block, which share a query head's positions

// What a block of flash_attend has: a tile of query rows, and a part of the positions that they
// see.
struct FlashItem {
  uint32_t sequence, first_token, n_tokens;
  uint32_t split, n_splits;
  uint32_t slot;  // of the first token's first part among the partial sums
};
// Of a sequence: how many parts its positions have, and the slot of its first token's first one.
struct FlashSplits {
  uint32_t slot, n_splits;
};
// The items of a step, in device memory.
struct FlashWork {
  FlashItem* items = nullptr;
  FlashSplits* splits = nullptr;  // [n_seqs + 1]
  uint32_t* n_items = nullptr;
  uint32_t most_items = 0;
};

struct AttendParams {
  Rows q, o;  // [rows, n_heads * head_dim], [rows, n_heads * v_head_dim]
  KvPlane k, v;
  const StepView* step = nullptr;
  const float* sinks = nullptr;   // [n_heads], or null
  const float* slopes = nullptr;  // [n_heads], or null
  uint32_t group = 0;
  uint32_t n_rows = 0;
  uint32_t n_heads = 0;
  uint32_t is_causal = 1;
  uint32_t window = 0;  // 0: none
  float scale = 1;
  float softcap = 0;
  uint32_t slope_rounding = 0;  // BP_SLOPES_*
  // Of the kernels in flash.hpp.
  FlashWork work;
  uint32_t tile_rows = 64;    // of queries, of a block
  uint32_t n_stages = 1;      // tiles of K and V in shared memory
  float* partials = nullptr;  // [slots, n_heads, floats_of_split]
  // o once more in the form that the product after it takes, by fold_splits.
  XForm form = XForm::kFloats;
  PreparedRows prepared;
};

// The query; of each warp its maximum, its denominator and its sums; of a warp's positions the
// blocks and the softmax's weights.
[[nodiscard]] inline Geometry attend_geometry(const AttendParams& p) {
  const uint32_t n_floats = p.k.head_dim + kAttendWarps * (2 + p.v.head_dim + 2 * 32);
  return {{p.n_rows, p.n_heads, 1}, kAttendWarps * 32, n_floats * 4};
}
[[nodiscard]] Kernel<AttendParams> attend_kernel(bp_dtype k_dtype, bp_dtype v_dtype,
                                                 uint32_t v_head_dim);

}  // namespace bp::cuda
