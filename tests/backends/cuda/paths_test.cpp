// Which kernels are chosen for which rows, types and shapes, how their work is spread, and that the
// memory planned for any number of rows is enough for each.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "backends/cuda/kernels/kv.hpp"
#include "backends/cuda/plan/attend_path.hpp"
#include "backends/cuda/plan/product_path.hpp"

namespace bp::cuda {
namespace {

DeviceInfo device(bool has_library) {
  DeviceInfo info;
  info.n_multiprocessors = 132;
  info.shared_bytes_per_block = 227 << 10;
  info.has_matrix_library = has_library;
  return info;
}

ProductShape shape(bp_dtype dtype, uint32_t n_columns = 4096, uint32_t n_in = 4096) {
  return {dtype, n_in, n_columns};
}

TEST(ProductPath, IsByTypeAndRows) {
  struct Expected {
    bp_dtype dtype;
    uint32_t n_rows;
    ProductKind without, with;  // the library
  };
  using K = ProductKind;
  for (const auto& [dtype, n_rows, without, with] : {
           Expected{BP_DTYPE_F32, 1, K::kRows, K::kRows},
           {BP_DTYPE_F32, 4096, K::kRows, K::kRows},
           {BP_DTYPE_BF16, 1, K::kRows, K::kRows},
           {BP_DTYPE_BF16, 2, K::kSkinny, K::kSkinny},
           {BP_DTYPE_BF16, 8, K::kSkinny, K::kSkinny},
           {BP_DTYPE_BF16, 9, K::kSkinny, K::kLibrary},
           {BP_DTYPE_BF16, 32, K::kSkinny, K::kLibrary},
           {BP_DTYPE_BF16, 33, K::kTiles, K::kLibrary},
           {BP_DTYPE_BF16, 64, K::kTiles, K::kLibrary},
           {BP_DTYPE_F8_E4M3, 64, K::kTiles, K::kTiles},
           {BP_DTYPE_F8_E4M3, 256, K::kTiles, K::kExpandedLibrary},
           {BP_DTYPE_Q4_K, 8, K::kPackedRows, K::kPackedRows},
           {BP_DTYPE_Q4_K, 255, K::kTiles, K::kTiles},
           {BP_DTYPE_Q4_K, 256, K::kTiles, K::kExpandedLibrary},
           {BP_DTYPE_IQ3_S, 1, K::kRows, K::kRows},
           {BP_DTYPE_IQ3_S, 9, K::kExpandedTiles, K::kExpandedTiles},
           {BP_DTYPE_IQ3_S, 512, K::kExpandedTiles, K::kExpandedLibrary},
       }) {
    EXPECT_EQ(product_kind(shape(dtype), n_rows, device(false)), without) << dtype << n_rows;
    EXPECT_EQ(product_kind(shape(dtype), n_rows, device(true)), with) << dtype << n_rows;
  }
}

TEST(ProductPath, BytesAndEightBitFloatsAreChoices) {
  DeviceInfo bytes = device(true), fp8 = device(true);
  bytes.has_byte_tiles = fp8.has_fp8_products = true;
  using K = ProductKind;
  for (const uint32_t n_rows : {kByteTileRows, 256u, 4096u}) {
    EXPECT_EQ(product_kind(shape(BP_DTYPE_Q4_K), n_rows, bytes), K::kByteTiles);
    EXPECT_EQ(product_kind(shape(BP_DTYPE_IQ3_S), n_rows, bytes),
              product_kind(shape(BP_DTYPE_IQ3_S), n_rows, device(true)));
  }
  EXPECT_EQ(product_kind(shape(BP_DTYPE_Q4_K), 8, bytes), K::kPackedRows);
  ProductShape experts = shape(BP_DTYPE_Q4_K, 1536);
  experts.n_groups = 8;
  experts.n_matrices = 128;
  EXPECT_EQ(product_kind(experts, 2048, bytes), K::kByteTiles);
  EXPECT_EQ(sorted_bytes(experts, 2048, bytes), sorted_bytes(experts, 2048, device(true)));
  EXPECT_EQ(most_partial_bytes(shape(BP_DTYPE_Q4_K), 64, bytes),
            most_partial_bytes(shape(BP_DTYPE_Q4_K), 64, device(true)));

  EXPECT_EQ(product_kind(shape(BP_DTYPE_F8_E4M3), 1, fp8), K::kRows);
  EXPECT_EQ(product_kind(shape(BP_DTYPE_F8_E4M3), 32, fp8), K::kSkinny);
  EXPECT_EQ(product_kind(shape(BP_DTYPE_F8_E4M3), 63, fp8), K::kTiles);
  EXPECT_EQ(product_kind(shape(BP_DTYPE_F8_E4M3), 64, fp8), K::kFp8Library);
  EXPECT_EQ(product_kind(shape(BP_DTYPE_F8_E5M2), 4096, fp8), K::kFp8Library);
  EXPECT_EQ(product_kind(shape(BP_DTYPE_F8_E4M3, 4096, 4104), 256, fp8), K::kExpandedLibrary);
  EXPECT_EQ(product_kind(shape(BP_DTYPE_F8_E4M3, 4104), 256, fp8), K::kExpandedLibrary);
  fp8.has_matrix_library = false;
  EXPECT_EQ(product_kind(shape(BP_DTYPE_F8_E4M3), 256, fp8), K::kTiles);
}

TEST(ProductPath, ExpertsAreSortedFromNineRowsOn) {
  ProductShape experts = shape(BP_DTYPE_Q4_K, 1536);
  experts.n_groups = 8;
  experts.n_matrices = 128;
  EXPECT_EQ(product_kind(experts, 8, device(true)), ProductKind::kPackedRows);
  EXPECT_EQ(product_kind(experts, 2048, device(true)), ProductKind::kTiles);
  EXPECT_EQ(sorted_bytes(experts, 8, device(true)), 0u);
  const uint64_t n_pairs = 2048 * 8, n_tiles = n_pairs / kTileRows + 128;
  EXPECT_GE(sorted_bytes(experts, 2048, device(true)), 4 * (n_pairs + 3 * n_tiles));
  experts.dtype = BP_DTYPE_IQ3_S;
  EXPECT_EQ(product_kind(experts, 2048, device(true)), ProductKind::kRows);
}

TEST(ProductPath, XIsInTheFormOfItsKernel) {
  EXPECT_EQ(form_of(ProductKind::kRows, BP_DTYPE_BF16), XForm::kFloats);
  EXPECT_EQ(form_of(ProductKind::kPackedRows, BP_DTYPE_Q4_K), XForm::kBytes);
  EXPECT_EQ(form_of(ProductKind::kSkinny, BP_DTYPE_F8_E4M3), XForm::kBf16);
  EXPECT_EQ(form_of(ProductKind::kTiles, BP_DTYPE_Q4_K), XForm::kBf16);
  EXPECT_EQ(form_of(ProductKind::kLibrary, BP_DTYPE_F16), XForm::kF16);
  EXPECT_EQ(form_of(ProductKind::kByteTiles, BP_DTYPE_Q4_K), XForm::kBytesOf32);
  EXPECT_EQ(form_of(ProductKind::kFp8Library, BP_DTYPE_F8_E4M3), XForm::kFp8);
}

// The products that tiles are launched for.
std::vector<ProductShape> launched(const ProductShape& s) {
  if (product_kind(s, kSkinnyRows + 1, device(false)) == ProductKind::kTiles) return {s};
  std::vector<ProductShape> slices;
  for (uint32_t first = 0; first < s.n_columns; first += columns_of_slice(s)) {
    slices.push_back(slice_of(s, first));
  }
  return slices;
}

void expect_splits_fit(const ProductShape& s, uint32_t most_rows) {
  SCOPED_TRACE(std::to_string(s.n_columns) + " x " + std::to_string(s.n_in) + " up to " +
               std::to_string(most_rows) + " rows");
  const uint64_t n_bytes = most_partial_bytes(s, most_rows, device(false));
  EXPECT_LE(n_bytes, kMostPartialBytes);
  for (const ProductShape& part : launched(s)) {
    const bool is_skinny = product_kind(s, kSkinnyRows, device(false)) == ProductKind::kSkinny;
    for (uint32_t n = is_skinny ? kSkinnyRows + 1 : 9; n <= most_rows; n += n < 130 ? 1 : 5) {
      const uint32_t n_splits = tile_splits(part, n, device(false));
      ASSERT_GE(n_splits, 1u);
      ASSERT_LE(n_splits, std::max(divide_up(s.n_in, kTileDepth) / 2, 1u));
      if (n_splits == 1) continue;
      ASSERT_LE(uint64_t{n_splits} * n * part.n_columns * 4, n_bytes) << n;
    }
  }
}

TEST(ProductPath, SplitsFillTheDeviceAndFitTheirMemory) {
  for (const uint32_t n_columns : {33u, 1024u, 4096u, 8256u, 16896u, 28672u, 128256u}) {
    for (const uint32_t n_in : {64u, 576u, 4096u, 14336u}) {
      for (const bp_dtype dtype : {BP_DTYPE_Q4_K, BP_DTYPE_IQ3_S}) {
        for (const uint32_t most_rows : {9u, 32u, 33u, 48u, 64u, 96u, 128u, 2048u}) {
          expect_splits_fit(shape(dtype, n_columns, n_in), most_rows);
        }
      }
    }
  }
  EXPECT_GT(tile_splits(shape(BP_DTYPE_Q4_K, 1024), 9, device(false)), 8u);
  EXPECT_EQ(tile_splits(shape(BP_DTYPE_Q4_K, 128256), 9, device(false)), 1u);
  EXPECT_EQ(most_partial_bytes(shape(BP_DTYPE_Q4_K, 128256), 2048, device(false)), 0u);
}

TEST(ProductPath, SlicesOfAnExpandedWeightFitTheirMemory) {
  const ProductShape s = shape(BP_DTYPE_Q4_K, 128256);
  const uint32_t n = columns_of_slice(s);
  EXPECT_EQ(n, 4096u);
  EXPECT_EQ(slice_bytes(s, 255, device(true)), 0u);
  EXPECT_EQ(slice_bytes(s, 256, device(true)), kSliceBytes);
  EXPECT_EQ(columns_of_slice(shape(BP_DTYPE_Q4_K, 100)), 100u);
}

AttendParams heads(bp_dtype dtype, uint32_t n_heads, uint32_t n_kv_heads, uint32_t dim) {
  AttendParams p;
  p.n_rows = 1;
  p.n_heads = n_heads;
  for (KvPlane* plane : {&p.k, &p.v}) {
    plane->dtype = dtype;
    plane->n_heads = n_kv_heads;
    plane->head_dim = dim;
    plane->row_bytes = kv_row_bytes(dtype, dim);
    plane->block_size = 64;
  }
  return p;
}

TEST(AttendPath, TensorCoresForCachesThatTheyMultiply) {
  for (const bp_dtype dtype : {BP_DTYPE_F16, BP_DTYPE_BF16, BP_DTYPE_F8_E4M3, BP_DTYPE_Q8_0}) {
    EXPECT_EQ(flash_stages(heads(dtype, 32, 8, 128), device(false)), 2u);
  }
  EXPECT_EQ(flash_stages(heads(BP_DTYPE_F32, 32, 8, 128), device(false)), 0u);
  EXPECT_EQ(flash_stages(heads(BP_DTYPE_F16, 128, 1, 128), device(false)), 0u);
  EXPECT_EQ(flash_stages(heads(BP_DTYPE_F16, 16, 1, 576), device(false)), 0u);
}

AttendParams heads_of_two(bp_dtype k, bp_dtype v, uint32_t dim) {
  AttendParams p = heads(k, 32, 8, dim);
  p.v.dtype = v;
  p.v.row_bytes = kv_row_bytes(v, dim);
  return p;
}

TEST(AttendPath, TensorCoresForKeysIn16BitsBesideValuesIn8) {
  constexpr bp_dtype kTypes[] = {BP_DTYPE_F32, BP_DTYPE_F16, BP_DTYPE_BF16, BP_DTYPE_F8_E4M3,
                                 BP_DTYPE_Q8_0};
  for (const bp_dtype k : kTypes) {
    for (const bp_dtype v : kTypes) {
      for (const uint32_t dim : {128u, 256u}) {
        const uint32_t n_stages = flash_stages(heads_of_two(k, v, dim), device(false));
        EXPECT_EQ(n_stages > 0, flash_takes(k, v)) << k << " " << v;
      }
    }
  }
  EXPECT_TRUE(flash_takes(BP_DTYPE_F16, BP_DTYPE_Q8_0));
  EXPECT_FALSE(flash_takes(BP_DTYPE_Q8_0, BP_DTYPE_F16));
}

TEST(AttendPath, LittleSharedMemoryTakesOneTile) {
  DeviceInfo small = device(false);
  small.shared_bytes_per_block = 99 << 10;
  EXPECT_EQ(flash_stages(heads(BP_DTYPE_F16, 8, 8, 128), small), 2u);
  EXPECT_EQ(flash_stages(heads(BP_DTYPE_F16, 8, 8, 256), small), 1u);
  small.shared_bytes_per_block = 64 << 10;
  EXPECT_EQ(flash_stages(heads(BP_DTYPE_F16, 8, 8, 128), small), 1u);
  EXPECT_EQ(flash_stages(heads(BP_DTYPE_F16, 8, 8, 256), small), 0u);
}

// 132 multiprocessors are filled by 198 blocks.
TEST(AttendPath, LongPromptsTakeLargeBlocks) {
  bp_attr_attention a{};
  a.n_heads = 32;
  a.n_kv_heads = 8;
  a.head_dim = a.v_head_dim = 128;
  const auto rows_of = [&](bp_dtype v, uint32_t n_rows) {
    return flash_tile_rows(a, BP_DTYPE_BF16, v, n_rows, device(false));
  };
  EXPECT_EQ(rows_of(BP_DTYPE_BF16, 24 * 32), kFlashRows);
  EXPECT_EQ(rows_of(BP_DTYPE_BF16, 24 * 32 + 1), kWideFlashRows);
  EXPECT_EQ(rows_of(BP_DTYPE_Q8_0, 2048), kFlashRows);
  a.v_head_dim = 64;
  EXPECT_EQ(rows_of(BP_DTYPE_BF16, 2048), kFlashRows);
  a.head_dim = 64;
  a.n_heads = 8 * 128;
  EXPECT_EQ(rows_of(BP_DTYPE_BF16, 2048), kFlashRows);
}

TEST(AttendPath, PartsOfPositionsFillTheDevice) {
  EXPECT_EQ(flash_slots(8, device(false)), 33u);
  EXPECT_EQ(flash_slots(1, device(false)), 264u);
  EXPECT_EQ(split_bytes(32, 8, 128, device(false)), 33u * 32 * 130 * 4);
  EXPECT_TRUE(may_split(33, 8192));
  EXPECT_FALSE(may_split(33, kFlashPositions));
  EXPECT_FALSE(may_split(1, 8192));
}

}  // namespace
}  // namespace bp::cuda
