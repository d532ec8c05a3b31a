#pragma once
// Rows times the rows of a weight: matmul, linear, qkv, lm_head, and by expert group_matmul and
// moe. product_path (product_path.hpp) says which of these kernels a product takes.

#include <functional>

#include "backends/cuda/device/device.hpp"
#include "backends/cuda/kernels/activation.hpp"
#include "backends/cuda/kernels/formats/planes.hpp"
#include "backends/cuda/kernels/views.hpp"

namespace bp::cuda {

// What the rows of x are for a kernel.
enum class XForm : uint32_t {
  kFloats,     // as they are
  kBytes,      // signed bytes with a scale for 16, then for each 16 {scale, scale * their sum}
  kBytesOf32,  // the same, where each two runs of 16 have one scale
  kBf16,       // zeros behind the last column up to a multiple of kTileDepth
  kF16,
  kFp8,  // e4m3 with a scale for the row, zeros behind likewise; behind all rows their scales
};

// Rows in another form. Rows of groups that have their own part of x follow each other.
struct PreparedRows {
  uint8_t* data = nullptr;
  uint64_t stride_bytes = 0;
};

// Pairs of a row and one of its groups, sorted by the matrix that multiplies them, in tiles of rows
// of one matrix each. In device memory, made by sort_pairs.
struct TilesOfPairs {
  const uint32_t* pairs = nullptr;     // [n_pairs]
  const uint32_t* matrices = nullptr;  // [max tiles]; n_matrices behind the last tile
  const uint32_t* first = nullptr;     // [max tiles], of pairs
  const uint32_t* end = nullptr;       // [max tiles]
};

// y[r][c] = finish(x[r] . weight[first_column + c]). With groups, columns [g * n_columns,
// (g + 1) * n_columns) of y[r] are by matrix ids[r][g] of the weight, or by matrix g where ids is
// null; x[r] is the same for all groups, or has a part for each.
struct ProductParams {
  Matrix weight;
  Rows x, y;
  PreparedRows prepared;  // x in the form of the kernel
  Epilogue epilogue;      // its bias is [n_matrices, n_columns] with groups
  uint32_t n_rows = 0;
  uint32_t n_columns = 0;     // of y, of a matrix
  uint32_t first_column = 0;  // row of the weight that gives column 0; 0 with groups
  // Another matrix of the type and width of the weight; y = activation(y) * (x . up + its bias).
  // By the kernels of 1 to 32 rows, without groups.
  const uint8_t* up = nullptr;  // the row that gives column 0, or null
  const float* up_bias = nullptr;
  uint32_t gate_activation = 0;
  // Groups.
  uint32_t n_groups = 0;  // 0: none
  uint32_t n_matrices = 0;
  uint32_t x_is_shared = 0;
  Rows ids;  // whole numbers as floats; or null
  TilesOfPairs tiles;
  // How the columns of x are split up.
  uint32_t n_slices = 1;              // among warps of a block: 1, 2 or 4
  uint32_t n_splits = 1;              // among blocks
  float* partials = nullptr;          // [n_splits, n_rows, n_columns], where n_splits > 1
  const float* row_scales = nullptr;  // of the sums that the fold finishes; or null
};

inline constexpr uint32_t kMaxParts = 3;

// Products of the same rows by weights of one type, in one launch: q, k and v, or gate and up.
// Where they are split, all are split alike.
struct ProductsParams {
  ProductParams parts[kMaxParts];
  uint32_t first_block[kMaxParts] = {};  // of columns, by lay_out_parts
  uint32_t n_parts = 1;
};
using ProductsKernel = Kernel<ProductsParams>;

// The geometry of all parts, by that of one: their blocks of columns, in that dimension of the
// grid, follow each other.
[[nodiscard]] Geometry lay_out_parts(ProductsParams& all, uint32_t dimension,
                                     const std::function<Geometry(const ProductParams&)>& of_one);

// ---- 1 to 8 rows, or pairs one by one: every column by the same sums for any number of rows
// ------

inline constexpr uint32_t kProductWarps = 4;  // of a block
inline constexpr uint32_t kProductRows = 8;   // that share one reading of the weight

// Columns of x that a lane takes at a time, for 16 bytes of the weight where it can.
[[nodiscard]] constexpr uint32_t columns_of_lane(bp_dtype dtype) {
  if (is_in_planes(dtype)) return 32;
  return is_fp8(dtype) ? 16 : 8;
}

// Rows of y that a warp computes together: of types that few models have, there is one kernel.
[[nodiscard]] constexpr uint32_t product_rows_together(bp_dtype dtype, uint32_t n_rows) {
  return n_rows == 1 && (is_plain(dtype) || is_in_planes(dtype)) ? 1 : kProductRows;
}
// Columns of y, likewise.
[[nodiscard]] constexpr uint32_t product_columns_together(bp_dtype dtype, uint32_t rows_together) {
  return rows_together == 1 || is_in_planes(dtype) ? 4 : 2;
}
// Warps that share the columns of x, by how often a warp would have to go around. Weights in planes
// are asked for one turn ahead: a warp has at least four turns.
[[nodiscard]] constexpr uint32_t product_slices(bp_dtype dtype, uint32_t n_in) {
  const uint32_t n_turns = divide_up(n_in, 32 * columns_of_lane(dtype));
  const uint32_t n = is_in_planes(dtype) ? n_turns / 4 : n_turns;
  return n >= kProductWarps ? kProductWarps : n >= 2 ? 2 : 1;
}
[[nodiscard]] Geometry product_geometry(const ProductParams& p);

// Null functions for a dtype that has no such kernel: product_rows takes all but those in planes,
// packed_rows those alone.
[[nodiscard]] ProductsKernel product_rows_kernel(bp_dtype dtype, uint32_t n_rows);
[[nodiscard]] ProductsKernel packed_rows_kernel(bp_dtype dtype, uint32_t n_rows);

// ---- 2 to 32 rows of floats, on tensor cores: the same sums for any number of rows
// ------------------------------------------------------------------------------

inline constexpr uint32_t kSkinnyRows = 32;
inline constexpr uint32_t kSkinnyWarps = 8;     // of a block, that share the columns of x
inline constexpr uint32_t kSkinnyColumns = 16;  // of a block: of y, or of gate and up together

// By floats of 8 and 16 bits, without groups.
[[nodiscard]] constexpr bool has_skinny_product(bp_dtype dtype) {
  return is_plain(dtype) && dtype != BP_DTYPE_F32;
}
// Columns of y of a block.
[[nodiscard]] constexpr uint32_t skinny_columns(const ProductParams& p) {
  return kSkinnyColumns / (p.up == nullptr ? 1 : 2);
}
[[nodiscard]] Geometry skinny_geometry(const ProductParams& p);
[[nodiscard]] ProductsKernel skinny_kernel(bp_dtype dtype, uint32_t n_rows);

// ---- more rows: tiles of 64 rows on tensor cores
// -------------------------------------------------

inline constexpr uint32_t kTileRows = 64;
inline constexpr uint32_t kTileDepth = 128;  // columns of x of a step
inline constexpr uint32_t kTileColumnsOfWarp = 16;

// Shared memory of a step: 128 columns of x and of a warp's columns, with what keeps rows apart.
inline constexpr uint32_t kHalfTileXBytes = kTileRows * (kTileDepth + 8) * 2;
inline constexpr uint32_t kHalfTileWarpBytes = kTileColumnsOfWarp * (kTileDepth + 8) * 2;
inline constexpr uint32_t kByteTileXBytes = kTileRows * (kTileDepth + 16 + 80);
inline constexpr uint32_t kByteTileWarpBytes = kTileColumnsOfWarp * (kTileDepth + 16 + 64);

enum class TileBy { kHalves, kBytes };

// n_warps: 4 or 8, of a block; each has its columns.
[[nodiscard]] Geometry tile_geometry(const ProductParams& p, uint32_t n_warps, TileBy by);
// By halves all types that are at most 16 bits wide and have tiles of their own; others are
// expanded first. By bytes those in planes.
[[nodiscard]] ProductsKernel tile_kernel(bp_dtype dtype, TileBy by);

// y = finish(the sum of the partials, in their order); finish(y) where nothing was split
[[nodiscard]] Geometry fold_geometry(const ProductParams& p);
[[nodiscard]] ProductsKernel fold_kernel();

// Bytes of a prepared row, whatever its form; rows of 8-bit floats follow each other more closely.
[[nodiscard]] constexpr uint32_t prepared_bytes(uint32_t n_in) {
  return round_up(n_in, kTileDepth) * 2;
}
[[nodiscard]] constexpr uint32_t fp8_row_bytes(uint32_t n_in) {
  return round_up(n_in, kTileDepth);
}

}  // namespace bp::cuda
