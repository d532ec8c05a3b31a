#include "backends/cuda/plan/product_path.hpp"

#include <algorithm>

#include "backends/cuda/kernels/experts.hpp"

namespace bp::cuda {

namespace {

bool is_expanded(ProductKind kind) {
  return kind == ProductKind::kExpandedTiles || kind == ProductKind::kExpandedLibrary;
}

// Of two steps at least.
uint32_t most_splits(const ProductShape& shape) {
  return std::max(divide_up(shape.n_in, kTileDepth) / 2, 1u);
}

// The fewest rows that are multiplied in tiles.
uint32_t fewest_tile_rows(const ProductShape& shape) {
  return (shape.n_groups == 0 && has_skinny_product(shape.dtype) ? kSkinnyRows : kProductRows) + 1;
}

// Whether any number of rows up to n_rows is split: 9 are fewest (of expanded weights too), and
// from 33 on a block is wide.
bool any_split(const ProductShape& shape, uint32_t n_rows, const DeviceInfo& device) {
  return tile_splits(shape, kProductRows + 1, device) > 1 ||
         (n_rows >= kWideTileRows && tile_splits(shape, kWideTileRows, device) > 1);
}

// Two blocks of many rows for each multiprocessor, four of few, which have half of the columns.
uint32_t blocks_wanted(uint32_t n_warps, const DeviceInfo& device) {
  return (n_warps == kMostTileWarps ? 2 : 4) * device.n_multiprocessors;
}

// Of rows up to n_rows. Splits times blocks are at most as many as are wanted, and a block has one
// tile of partial sums for each split.
uint64_t partial_bytes(const ProductShape& shape, uint32_t n_rows, const DeviceInfo& device) {
  if (!any_split(shape, n_rows, device)) return 0;
  constexpr uint64_t kBytesOfBlock =
      uint64_t{kTileRows} * kMostTileWarps * kTileColumnsOfWarp * sizeof(float);
  const uint64_t of_blocks = blocks_wanted(kMostTileWarps, device) * kBytesOfBlock;
  const uint64_t of_splits =
      uint64_t{most_splits(shape)} * n_rows * shape.n_columns * sizeof(float);
  return std::min({kMostPartialBytes, of_blocks, of_splits});
}

}  // namespace

ProductKind product_kind(const ProductShape& shape, uint32_t n_rows, const DeviceInfo& device) {
  const bool has_tiles = tile_kernel(shape.dtype, TileBy::kHalves).function != nullptr;
  const bool is_few = n_rows <= kProductRows || shape.dtype == BP_DTYPE_F32;
  const bool one_by_one = shape.n_groups > 0 && (!has_tiles || shape.n_matrices > kMaxExperts);
  const bool by_library = device.has_matrix_library && is_half(shape.dtype);
  const uint32_t most_skinny = by_library ? kLibraryRows - 1 : kSkinnyRows;
  if (n_rows > 1 && n_rows <= most_skinny && shape.n_groups == 0 &&
      has_skinny_product(shape.dtype)) {
    return ProductKind::kSkinny;
  }
  if (is_few || one_by_one) {
    return is_in_planes(shape.dtype) ? ProductKind::kPackedRows : ProductKind::kRows;
  }
  if (device.has_byte_tiles && is_in_planes(shape.dtype) && n_rows >= kByteTileRows) {
    return ProductKind::kByteTiles;
  }
  if (shape.n_groups > 0) return ProductKind::kTiles;
  if (may_be_fp8(shape, device) && n_rows >= kFp8LibraryRows) return ProductKind::kFp8Library;
  if (device.has_matrix_library) {
    if (is_half(shape.dtype) && n_rows >= kLibraryRows) return ProductKind::kLibrary;
    if (!is_half(shape.dtype) && n_rows >= kExpandedLibraryRows) {
      return ProductKind::kExpandedLibrary;
    }
  }
  return has_tiles ? ProductKind::kTiles : ProductKind::kExpandedTiles;
}

// Rows of both from 16 to 16 bytes, of whole vectors.
bool may_be_fp8(const ProductShape& shape, const DeviceInfo& device) {
  return device.has_fp8_products && device.has_matrix_library && is_fp8(shape.dtype) &&
         shape.n_groups == 0 && shape.n_in % 16 == 0 && shape.n_columns % 16 == 0;
}

XForm form_of(ProductKind kind, bp_dtype dtype) {
  switch (kind) {
    case ProductKind::kRows:
      return XForm::kFloats;
    case ProductKind::kPackedRows:
      return XForm::kBytes;
    case ProductKind::kByteTiles:
      return XForm::kBytesOf32;
    case ProductKind::kFp8Library:
      return XForm::kFp8;
    default:
      return dtype == BP_DTYPE_F16 ? XForm::kF16 : XForm::kBf16;
  }
}

// Few rows need little of a block, and then more blocks read weights at once.
uint32_t tile_warps(const ProductShape& shape, uint32_t n_rows) {
  const uint32_t n = shape.n_groups == 0 ? n_rows : n_rows * shape.n_groups / shape.n_matrices;
  return n >= kWideTileRows ? kMostTileWarps : kMostTileWarps / 2;
}

// As many as give each multiprocessor its blocks.
uint32_t tile_splits(const ProductShape& shape, uint32_t n_rows, const DeviceInfo& device) {
  if (shape.n_groups > 0) return 1;
  const uint32_t n_blocks =
      divide_up(shape.n_columns, tile_warps(shape, n_rows) * kTileColumnsOfWarp) *
      divide_up(n_rows, kTileRows);
  const uint64_t bytes_of_split = uint64_t{n_rows} * shape.n_columns * sizeof(float);
  const auto most = static_cast<uint32_t>(
      std::min<uint64_t>(most_splits(shape), kMostPartialBytes / bytes_of_split));
  const uint32_t n_wanted = blocks_wanted(tile_warps(shape, n_rows), device);
  return std::clamp(n_wanted / n_blocks, 1u, std::max(most, 1u));
}

uint64_t most_partial_bytes(const ProductShape& shape, uint32_t n_rows, const DeviceInfo& device) {
  const ProductKind fewest = product_kind(shape, fewest_tile_rows(shape), device);
  if (n_rows < fewest_tile_rows(shape) || shape.n_groups > 0 ||
      (!is_tiles(fewest) && fewest != ProductKind::kExpandedTiles)) {
    return 0;
  }
  if (!is_expanded(fewest)) return partial_bytes(shape, n_rows, device);
  uint64_t n_bytes = 0;
  const uint32_t most = columns_of_slice(shape);
  for (const uint32_t first : {0u, (shape.n_columns - 1) / most * most}) {
    n_bytes = std::max(n_bytes, partial_bytes(slice_of(shape, first), n_rows, device));
  }
  return n_bytes;
}

uint32_t columns_of_slice(const ProductShape& shape) {
  constexpr uint32_t kStep = 64;  // so that slices of y begin where libraries like them to
  const uint64_t n =
      std::max<uint64_t>(kSliceBytes / expanded_row_bytes(shape.n_in) / kStep * kStep, kStep);
  return static_cast<uint32_t>(std::min<uint64_t>(n, shape.n_columns));
}

ProductShape slice_of(const ProductShape& shape, uint32_t first) {
  const uint32_t n = std::min(columns_of_slice(shape), shape.n_columns - first);
  return {BP_DTYPE_BF16, shape.n_in, n, 0, 0};
}

uint64_t sorted_bytes(const ProductShape& shape, uint32_t n_rows, const DeviceInfo& device) {
  const bool is_sorted = shape.n_groups > 0 && is_tiles(product_kind(shape, n_rows, device));
  if (!is_sorted) return 0;
  const uint64_t n_pairs = uint64_t{n_rows} * shape.n_groups;
  return (n_pairs + 3 * (n_pairs / kTileRows + 1 + shape.n_matrices)) * sizeof(uint32_t);
}

uint64_t slice_bytes(const ProductShape& shape, uint32_t n_rows, const DeviceInfo& device) {
  if (!is_expanded(product_kind(shape, n_rows, device))) return 0;
  return columns_of_slice(shape) * expanded_row_bytes(shape.n_in);
}

}  // namespace bp::cuda
