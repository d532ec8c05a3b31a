#include "backends/cuda/kernels/product.hpp"

#include <algorithm>

#include "backends/cuda/kernels/experts.hpp"
#include "backends/cuda/kernels/kernel_lists.hpp"

namespace bp::cuda {

Geometry lay_out_parts(ProductsParams& all, uint32_t dimension,
                       const std::function<Geometry(const ProductParams&)>& of_one) {
  Geometry geometry;
  uint32_t n_blocks = 0;
  for (uint32_t i = 0; i < all.n_parts; ++i) {
    geometry = of_one(all.parts[i]);
    all.first_block[i] = n_blocks;
    n_blocks += geometry.grid[dimension];
  }
  geometry.grid[dimension] = n_blocks;
  return geometry;
}

Geometry product_geometry(const ProductParams& p) {
  const uint32_t n_rows = p.n_groups > 0 ? 1 : p.n_rows;
  const uint32_t rows_together = product_rows_together(p.weight.dtype, n_rows);
  const uint32_t n_of_warp =
      product_columns_together(p.weight.dtype, rows_together) / (p.up == nullptr ? 1 : 2);
  const uint32_t n_columns = kProductWarps / p.n_slices * n_of_warp;  // of a block
  const uint32_t n_blocks = divide_up(p.n_columns, n_columns);
  if (p.n_groups > 0) return {{p.n_rows * p.n_groups, n_blocks, 1}, kProductWarps * 32, 0};
  return {{n_blocks, divide_up(n_rows, rows_together), 1}, kProductWarps * 32, 0};
}

Geometry skinny_geometry(const ProductParams& p) {
  return {{divide_up(p.n_columns, skinny_columns(p)), 1, 1}, kSkinnyWarps * 32, 0};
}

Geometry tile_geometry(const ProductParams& p, uint32_t n_warps, TileBy by) {
  const uint32_t n_tiles = p.n_groups == 0 ? divide_up(p.n_rows, kTileRows)
                                           : tiles_of_pairs(p.n_rows * p.n_groups, p.n_matrices);
  const uint32_t shared_bytes = by == TileBy::kBytes
                                    ? 2 * kByteTileXBytes + n_warps * kByteTileWarpBytes
                                    : 2 * kHalfTileXBytes + n_warps * kHalfTileWarpBytes;
  return {{divide_up(p.n_columns, n_warps * kTileColumnsOfWarp), n_tiles, p.n_splits},
          n_warps * 32,
          shared_bytes};
}

Geometry fold_geometry(const ProductParams& p) {
  return {{divide_up(p.n_columns, 256), std::min(p.n_rows, kMaxGridY), 1}, 256, 0};
}

ProductsKernel packed_rows_kernel(bp_dtype dtype, uint32_t n_rows) {
  const auto kernel = packed_rows_kernel_a(dtype, n_rows);
  return kernel.function != nullptr ? kernel : packed_rows_kernel_b(dtype, n_rows);
}

ProductsKernel tile_kernel(bp_dtype dtype, TileBy by) {
  if (by == TileBy::kBytes) {
    const auto kernel = byte_tile_kernel_a(dtype);
    return kernel.function != nullptr ? kernel : byte_tile_kernel_b(dtype);
  }
  for (const auto find : {tile_kernel_of_floats, tile_kernel_a, tile_kernel_b}) {
    const auto kernel = find(dtype);
    if (kernel.function != nullptr) return kernel;
  }
  return {};
}

}  // namespace bp::cuda
