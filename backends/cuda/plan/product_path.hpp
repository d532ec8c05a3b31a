#pragma once
// Which kernels a product takes for a number of rows, how its work is spread, and what memory it
// needs beside x and y. Rows are those of a step, prompts and many sequences alike. The limits are
// where one is expected to overtake the other; they are to be moved by measurement alone.

#include "backends/cuda/device/device.hpp"
#include "backends/cuda/kernels/product.hpp"

namespace bp::cuda {

enum class ProductKind {
  kRows,             // floats by widened weights
  kPackedRows,       // bytes by packed weights
  kSkinny,           // few rows of floats on tensor cores, in 16 bits
  kTiles,            // on tensor cores, in 16 bits
  kByteTiles,        // likewise, in bytes
  kExpandedTiles,    // the weight made bf16 slice by slice, then tiles
  kLibrary,          // by the device's library of matrix products
  kFp8Library,       // likewise, x in 8 bits too
  kExpandedLibrary,  // likewise, after the weight is made bf16
};

struct ProductShape {
  bp_dtype dtype = BP_DTYPE_NONE;
  uint32_t n_in = 0;
  uint32_t n_columns = 0;   // of y, of a matrix
  uint32_t n_groups = 0;    // 0: none
  uint32_t n_matrices = 0;  // with groups
};

inline constexpr uint32_t kWideTileRows = 33;  // tiles by kMostTileWarps
inline constexpr uint32_t kMostTileWarps = 8;
inline constexpr uint32_t kByteTileRows = 9;  // of weights in planes, where bytes are wanted at all
inline constexpr uint32_t kLibraryRows = 9;   // of 16-bit weights; up to there skinny products
inline constexpr uint32_t kFp8LibraryRows = 64;  // of 8-bit floats, where such products are wanted
inline constexpr uint32_t kExpandedLibraryRows = 256;  // of other weights
inline constexpr uint64_t kSliceBytes = 32u << 20;     // of an expanded weight: it stays in the L2
inline constexpr uint64_t kMostPartialBytes = 16u << 20;

[[nodiscard]] ProductKind product_kind(const ProductShape& shape, uint32_t n_rows,
                                       const DeviceInfo& device);
// Whether the product of gate and up applies the activation.
[[nodiscard]] constexpr bool has_gated_kernel(ProductKind kind) {
  return kind == ProductKind::kRows || kind == ProductKind::kPackedRows ||
         kind == ProductKind::kSkinny;
}
[[nodiscard]] XForm form_of(ProductKind kind, bp_dtype dtype);

[[nodiscard]] constexpr bool is_tiles(ProductKind kind) {
  return kind == ProductKind::kTiles || kind == ProductKind::kByteTiles;
}
// Whether many rows of a shape would be multiplied in 8-bit floats.
[[nodiscard]] bool may_be_fp8(const ProductShape& shape, const DeviceInfo& device);

// How tiles are spread.
[[nodiscard]] uint32_t tile_warps(const ProductShape& shape, uint32_t n_rows);
[[nodiscard]] uint32_t tile_splits(const ProductShape& shape, uint32_t n_rows,
                                   const DeviceInfo& device);

// Bytes of the partial sums of any number of rows up to n_rows; 0 where none is split.
[[nodiscard]] uint64_t most_partial_bytes(const ProductShape& shape, uint32_t n_rows,
                                          const DeviceInfo& device);
// Columns of y whose weights are expanded together, and their bytes; 0 where none are.
[[nodiscard]] uint32_t columns_of_slice(const ProductShape& shape);
// The product of the slice that begins with that column.
[[nodiscard]] ProductShape slice_of(const ProductShape& shape, uint32_t first);
[[nodiscard]] uint64_t slice_bytes(const ProductShape& shape, uint32_t n_rows,
                                   const DeviceInfo& device);
// Bytes of the sorted pairs of rows and groups; 0 where they are not sorted.
[[nodiscard]] uint64_t sorted_bytes(const ProductShape& shape, uint32_t n_rows,
                                    const DeviceInfo& device);
[[nodiscard]] constexpr uint64_t expanded_row_bytes(uint32_t n_in) {
  return round_up(n_in, 8) * uint64_t{2};
}

}  // namespace bp::cuda
