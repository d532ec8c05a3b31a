#pragma once
// Attention on tensor cores, for caches of 16 and 8 bits: prompts and decoding by the same kernel.
// A block has the query rows (a token's query by a head) of up to 64, in long prompts 128, that
// share a KV head and a sequence, and goes over their positions in tiles of 64. Up to 16 rows, its
// warps share the positions of a tile; above, each has 16 rows, or 32. The positions of a sequence
// that has one tile, as all that decode, may be split among blocks too, whose partial sums
// fold_splits adds up in a fixed order: in parts as long as those of the step's other such
// sequences.

#include "backends/cuda/kernels/attend.hpp"

namespace bp::cuda {

inline constexpr uint32_t kFlashRows = 64;       // of queries, of a block
inline constexpr uint32_t kWideFlashRows = 128;  // the same of long prompts
inline constexpr uint32_t kFlashPositions = 64;  // of a tile
inline constexpr uint32_t kFlashWarps = 4;
inline constexpr uint32_t kMaxFlashDim = 256;  // columns of a head's K and V
inline constexpr uint32_t kMaxFlashSplits = 128;

// That share a KV head.
[[nodiscard]] constexpr uint32_t heads_together(const AttendParams& p) {
  return p.n_heads / p.k.n_heads;
}
// Caches of 16 and 8 bits; of two types, those with keys in 16 bits and values in 8.
[[nodiscard]] constexpr bool flash_takes(bp_dtype k, bp_dtype v) {
  const bool is_mixed = is_half(k) && (v == BP_DTYPE_F8_E4M3 || v == BP_DTYPE_Q8_0);
  return k == v ? k != BP_DTYPE_F32 : is_mixed;
}

// Columns of K and of V where there are kernels for just that many, or 0.
[[nodiscard]] constexpr uint32_t exact_flash_dim(uint32_t k_dim, uint32_t v_dim) {
  return k_dim == v_dim && (k_dim == 64 || k_dim == 128) ? k_dim : 0;
}
// Whether there is one for kWideFlashRows.
[[nodiscard]] constexpr bool has_wide_flash(bp_dtype k, bp_dtype v, uint32_t exact_dim) {
  return k == v && is_half(k) && exact_dim != 0;
}

// Which blocks a step has for attention, once for all layers that look back alike.
struct FlashItemsParams {
  const StepView* step = nullptr;
  FlashWork work;
  uint32_t n_rows = 0;
  uint32_t tokens_of_tile = 0;
  uint32_t n_slots = 0;  // of partial sums; fewer than 2: nothing is split
  uint32_t is_causal = 1;
  uint32_t window = 0;
};
[[nodiscard]] inline Geometry flash_items_geometry(const FlashItemsParams&) {
  return {{1, 1, 1}, 256, 0};
}
[[nodiscard]] Kernel<FlashItemsParams> flash_items_kernel();
// The most items: a tile more for each sequence, and for the tokens that pad the step.
[[nodiscard]] constexpr uint32_t most_flash_items(uint32_t n_rows, uint32_t n_seqs,
                                                  uint32_t tokens_of_tile, uint32_t n_slots) {
  return divide_up(n_rows, tokens_of_tile) + n_seqs + 1 + n_slots;
}

// Bytes of shared memory with one or two tiles of K and V.
[[nodiscard]] uint32_t flash_shared_bytes(const AttendParams& p, uint32_t n_stages);
[[nodiscard]] Geometry flash_geometry(const AttendParams& p);
// Null where the types or the sizes are not for these kernels.
[[nodiscard]] Kernel<AttendParams> flash_kernel(const AttendParams& p);

// Heads of a token that a block has: many where few sequences are split, so that most of the work
// is writing rows in their new form.
[[nodiscard]] constexpr uint32_t heads_of_fold(uint32_t n_rows, uint32_t n_heads) {
  return n_rows < 64 ? 1 : n_heads < 16 ? n_heads : 16;
}
[[nodiscard]] inline Geometry fold_splits_geometry(const AttendParams& p) {
  return {{p.n_rows, divide_up(p.n_heads, heads_of_fold(p.n_rows, p.n_heads)), 1}, 128, 0};
}
[[nodiscard]] Kernel<AttendParams> fold_splits_kernel();

// Of one query row and split: the largest score, the denominator, and the sums of v.
[[nodiscard]] constexpr uint32_t floats_of_split(uint32_t v_head_dim) {
  return v_head_dim + 2;
}

}  // namespace bp::cuda
