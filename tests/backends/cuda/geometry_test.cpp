// How launches are spread: every element has a thread, within what a GPU can launch.

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "backends/cuda/kernels/attend.hpp"
#include "backends/cuda/kernels/columns.hpp"
#include "backends/cuda/kernels/elementwise.hpp"
#include "backends/cuda/kernels/embed.hpp"
#include "backends/cuda/kernels/experts.hpp"
#include "backends/cuda/kernels/kv.hpp"
#include "backends/cuda/kernels/norm.hpp"
#include "backends/cuda/kernels/product.hpp"
#include "backplane/dtype.hpp"

namespace bp::cuda {
namespace {

struct GroupProductOfManyRows : ProductParams {
  GroupProductOfManyRows() {
    weight.dtype = BP_DTYPE_Q4_K;
    n_rows = 32768;
    n_groups = 8;
    n_columns = 14336;
  }
};

TEST(Geometry, ProductsCoverRowsAndColumns) {
  for (const bp_dtype dtype : {BP_DTYPE_F32, BP_DTYPE_Q4_K, BP_DTYPE_IQ3_S}) {
    for (const uint32_t n_rows : {1u, 2u, 8u, 9u, 512u, 16384u}) {
      for (const uint32_t n_columns : {1u, 5u, 4096u, 151936u}) {
        for (const uint32_t n_slices : {1u, 2u, 4u}) {
          ProductParams p;
          p.weight.dtype = dtype;
          p.n_rows = n_rows;
          p.n_columns = n_columns;
          p.n_slices = n_slices;
          const Geometry g = product_geometry(p);
          const uint32_t together = product_rows_together(dtype, n_rows);
          const uint32_t columns =
              product_columns_together(dtype, together) * kProductWarps / n_slices;
          EXPECT_GE(uint64_t{g.grid[0]} * columns, n_columns);
          EXPECT_GE(uint64_t{g.grid[1]} * together, n_rows);
          EXPECT_LE(g.grid[1], kMaxGridY);
          EXPECT_EQ(g.n_threads, kProductWarps * 32);
        }
      }
    }
  }
}

TEST(Geometry, ExpertsOfALongPromptFit) {
  GroupProductOfManyRows p;
  const Geometry g = product_geometry(p);
  EXPECT_EQ(g.grid[0], 262144u);
  EXPECT_GE(g.grid[1] * 4 * kProductWarps, 14336u);
  EXPECT_LE(g.grid[1], kMaxGridY);
}

TEST(Geometry, TilesCoverRowsColumnsAndSplitsOfSharedMemoryThatEveryDeviceHas) {
  for (const uint32_t n_warps : {4u, 8u}) {
    for (const uint32_t n_rows : {9u, 64u, 65u, 4096u}) {
      for (const TileBy by : {TileBy::kHalves, TileBy::kBytes}) {
        ProductParams p;
        p.n_rows = n_rows;
        p.n_columns = 4100;
        p.n_splits = 3;
        const Geometry g = tile_geometry(p, n_warps, by);
        EXPECT_GE(g.grid[0] * n_warps * kTileColumnsOfWarp, p.n_columns);
        EXPECT_GE(g.grid[1] * kTileRows, n_rows);
        EXPECT_EQ(g.grid[2], 3u);
        EXPECT_LE(g.shared_bytes, 99u << 10);
        // The results, which take the place of the tiles.
        const uint32_t n_results = kTileRows * (n_warps * kTileColumnsOfWarp + 8);
        EXPECT_LE(n_results * sizeof(float), g.shared_bytes);
      }
    }
  }
}

TEST(Geometry, FoldsOfTheWidestProductsFit) {
  ProductParams p;
  for (const auto& [n_rows, n_columns] :
       {std::pair{1u, 16777216u}, {9u, 16776961u}, {70000u, 257u}, {65536u, 151936u}}) {
    p.n_rows = n_rows;
    p.n_columns = n_columns;
    const Geometry g = fold_geometry(p);
    EXPECT_GE(uint64_t{g.grid[0]} * 256, n_columns);
    EXPECT_EQ(g.grid[1], std::min(n_rows, kMaxGridY));
    EXPECT_EQ(g.grid[2], 1u);
  }
}

TEST(Geometry, SlicesGiveEveryLaneWork) {
  EXPECT_EQ(product_slices(BP_DTYPE_Q4_K, 1024), 1u);
  EXPECT_EQ(product_slices(BP_DTYPE_Q4_K, 4096), 1u);
  EXPECT_EQ(product_slices(BP_DTYPE_Q4_K, 8192), 2u);
  EXPECT_EQ(product_slices(BP_DTYPE_Q4_K, 14336), 2u);
  EXPECT_EQ(product_slices(BP_DTYPE_Q4_K, 16384), 4u);
  EXPECT_EQ(product_slices(BP_DTYPE_F8_E4M3, 1024), 2u);
  EXPECT_EQ(product_slices(BP_DTYPE_BF16, 256), 1u);
  EXPECT_EQ(product_slices(BP_DTYPE_BF16, 4096), 4u);
}

TEST(Geometry, NormsHaveABlockOfWholeWarpsForEachGroup) {
  for (const uint32_t group : {7u, 64u, 128u, 129u, 1024u, 4096u, 16384u, 16388u}) {
    NormParams p;
    p.n_rows = 5;
    p.group = group;
    p.width = 3 * group;
    const Geometry g = norm_geometry(p);
    EXPECT_EQ(g.grid[0], 5u);
    EXPECT_EQ(g.grid[1], 3u);
    EXPECT_EQ(g.n_threads % 32, 0u);
    EXPECT_LE(g.n_threads, is_wide(p) ? 1024u : 256u);
    EXPECT_EQ(is_wide(p), group == 4096 || group == 16384) << group;
  }
}

TEST(Geometry, KvRowsHoldTheirValues) {
  for (const uint32_t d : {8u, 20u, 64u, 72u, 128u, 576u}) {
    EXPECT_GE(kv_row_bytes(BP_DTYPE_F32, d), 4 * d);
    EXPECT_GE(kv_row_bytes(BP_DTYPE_F16, d), 2 * d);
    EXPECT_GE(kv_row_bytes(BP_DTYPE_F8_E4M3, d), d);
    EXPECT_GE(kv_row_bytes(BP_DTYPE_Q8_0, d), d + 2 * ((d + 31) / 32));
    for (const bp_dtype dtype : {BP_DTYPE_F32, BP_DTYPE_F16, BP_DTYPE_BF16, BP_DTYPE_Q8_0}) {
      EXPECT_EQ(kv_row_bytes(dtype, d) % 16, 0u);
    }
  }
  EXPECT_EQ(kv_row_bytes(BP_DTYPE_Q8_0, 128), 144u);
}

TEST(Geometry, AttentionOfTheWidestHeadsFitsTheSmallestSharedMemory) {
  AttendParams p;
  p.n_rows = 1;
  p.n_heads = 128;
  p.k.head_dim = kMaxKeyDim;
  p.v.head_dim = kMaxValueDim;
  EXPECT_LE(attend_geometry(p).shared_bytes, 48u << 10);
  RouteParams route;
  route.n_experts = kMaxExperts;
  route.n_groups = 64;
  EXPECT_LE(route_geometry(route).shared_bytes, 48u << 10);
}

TEST(Geometry, EveryTypeOfWeightHasItsKernels) {
  uint32_t n = 0;
  for (bp_dtype dtype = 1; dtype < BP_DTYPE_COUNT; ++dtype) {
    const bool is_weight = embed_kernel(dtype).function != nullptr;
    n += is_weight ? 1 : 0;
    for (const uint32_t n_rows : {1u, 2u}) {
      const bool by_rows = product_rows_kernel(dtype, n_rows).function != nullptr;
      const bool by_bytes = packed_rows_kernel(dtype, n_rows).function != nullptr;
      EXPECT_EQ(is_weight, by_rows != by_bytes) << dtype;
      EXPECT_EQ(by_bytes, is_in_planes(dtype)) << dtype;
    }
    const bool has_tiles = is_in_planes(dtype) || (is_plain(dtype) && dtype != BP_DTYPE_F32);
    EXPECT_EQ(tile_kernel(dtype, TileBy::kHalves).function != nullptr, has_tiles) << dtype;
    EXPECT_EQ(tile_kernel(dtype, TileBy::kBytes).function != nullptr, is_in_planes(dtype)) << dtype;
  }
  EXPECT_EQ(n, 32u);  // all but f64 and the whole numbers
}

// Every byte of a block is in one plane.
TEST(Geometry, PlanesAreTheWholeBlock) {
  for (bp_dtype dtype = 1; dtype < BP_DTYPE_COUNT; ++dtype) {
    const PlaneList list = planes_of(dtype);
    if (list.n_planes == 0) continue;
    std::vector<int> n_times(dtype_info(dtype).block_bytes);
    for (uint32_t i = 0; i < list.n_planes; ++i) {
      const Plane& plane = list.planes[i];
      for (uint32_t b = plane.offset; b < plane.offset + plane.n_bytes; ++b) ++n_times.at(b);
    }
    for (const int n : n_times) EXPECT_EQ(n, 1) << dtype_name(dtype);
  }
}

}  // namespace
}  // namespace bp::cuda
