#pragma once
// Attention on tensor cores, for caches of 16 and 8 bits: prompts and decoding by the same kernel.
// A block has the query rows (a token's query by a head) of up to 64 that share a KV head and a
// sequence, and goes over their positions in tiles of 64. Up to 16 rows, its warps share the
// positions of a tile; above, each has 16 rows. Decoding splits the positions among blocks too,
// whose partial sums fold_splits adds up in a fixed order.

#include "backends/cuda/kernels/attend.hpp"

namespace bp::cuda {

inline constexpr uint32_t kFlashRows = 64;       // of queries, of a block
inline constexpr uint32_t kFlashPositions = 64;  // of a tile
inline constexpr uint32_t kFlashWarps = 4;
inline constexpr uint32_t kMaxFlashDim = 256;  // columns of a head's K and V
inline constexpr uint32_t kMaxFlashSplits = 16;

[[nodiscard]] constexpr uint32_t heads_together(const AttendParams& p) {
  return p.n_heads / p.k.n_heads;
}
[[nodiscard]] constexpr uint32_t tokens_of_flash_tile(const AttendParams& p) {
  return kFlashRows / heads_together(p);
}
// Bytes of shared memory with one or two tiles of K and V.
[[nodiscard]] uint32_t flash_shared_bytes(const AttendParams& p, uint32_t n_stages);
[[nodiscard]] Geometry flash_geometry(const AttendParams& p);
// Null where the types or the sizes are not for these kernels.
[[nodiscard]] Kernel<AttendParams> flash_kernel(const AttendParams& p);

[[nodiscard]] inline Geometry fold_splits_geometry(const AttendParams& p) {
  return {{p.n_rows, p.n_heads, 1}, 128, 0};
}
[[nodiscard]] Kernel<AttendParams> fold_splits_kernel();

// Of one query row and split: the largest score, the denominator, and the sums of v.
[[nodiscard]] constexpr uint32_t floats_of_split(uint32_t v_head_dim) {
  return v_head_dim + 2;
}

}  // namespace bp::cuda
