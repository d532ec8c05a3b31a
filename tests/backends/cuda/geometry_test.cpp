// How launches are spread: every element has a thread, within what a GPU can launch.

#include <gtest/gtest.h>

#include "backends/cuda/kernels/attend.hpp"
#include "backends/cuda/kernels/columns.hpp"
#include "backends/cuda/kernels/elementwise.hpp"
#include "backends/cuda/kernels/embed.hpp"
#include "backends/cuda/kernels/experts.hpp"
#include "backends/cuda/kernels/kv.hpp"
#include "backends/cuda/kernels/norm.hpp"
#include "backends/cuda/kernels/product.hpp"

namespace bp::cuda {
namespace {

constexpr uint32_t kMaxGridY = 65535;

TEST(Geometry, ProductsCoverRowsAndColumns) {
  for (const uint32_t n_rows : {1u, 2u, 8u, 9u, 512u, 16384u}) {
    for (const uint32_t n_columns : {1u, 5u, 4096u, 151936u}) {
      ProductParams p;
      p.n_rows = n_rows;
      p.n_columns = n_columns;
      const Geometry g = product_geometry(p);
      EXPECT_GE(uint64_t{g.grid[0]} * kProductWarps, n_columns);
      EXPECT_GE(uint64_t{g.grid[1]} * product_rows_together(n_rows), n_rows);
      EXPECT_LE(g.grid[1], kMaxGridY);
      EXPECT_EQ(g.n_threads, kProductWarps * 32);
    }
  }
}

TEST(Geometry, ExpertsOfALongPromptFit) {
  GroupProductParams p;
  p.n_rows = 32768;
  p.n_groups = 8;
  p.n_columns = 14336;
  const Geometry g = group_product_geometry(p);
  EXPECT_EQ(g.grid[0], 262144u);
  EXPECT_EQ(g.grid[1], 14336u / kProductWarps);
  EXPECT_LE(g.grid[1], kMaxGridY);
}

TEST(Geometry, NormsHaveABlockOfWholeWarpsForEachGroup) {
  for (const uint32_t group : {7u, 64u, 128u, 129u, 1024u, 4096u}) {
    NormParams p;
    p.n_rows = 5;
    p.group = group;
    p.width = 3 * group;
    const Geometry g = norm_geometry(p);
    EXPECT_EQ(g.grid[0], 5u);
    EXPECT_EQ(g.grid[1], 3u);
    EXPECT_EQ(g.n_threads % 32, 0u);
    EXPECT_LE(g.n_threads, 256u);
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
    const bool has_product = product_kernel(dtype, 1).function != nullptr;
    n += has_product ? 1 : 0;
    EXPECT_EQ(has_product, product_kernel(dtype, 2).function != nullptr) << dtype;
    EXPECT_EQ(has_product, group_product_kernel(dtype).function != nullptr) << dtype;
    EXPECT_EQ(has_product, embed_kernel(dtype).function != nullptr) << dtype;
  }
  EXPECT_EQ(n, 32u);  // all but f64 and the whole numbers
}

}  // namespace
}  // namespace bp::cuda
