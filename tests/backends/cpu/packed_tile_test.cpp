// Tiles of keys and values in 12 bits: nothing is lost, and attention gives the same as with tiles
// as they are.

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "backends/cpu/aligned_buffer.hpp"
#include "backends/cpu/cpu_features.hpp"
#include "backends/cpu/kv_cache.hpp"
#include "sdk/conformance/support/program_builder.hpp"
#include "sdk/conformance/support/random_values.hpp"
#include "tests/backends/cpu/tunings.hpp"

namespace bp::cpu {
namespace {

constexpr uint32_t kPackedDims[] = {32, 64, 96, 128, 256};
constexpr uint32_t kCacheBlocks = 20;  // three runs, the last one shorter

// Those that pack tiles.
std::vector<Kernels> packing_kernels() {
  std::vector<Kernels> all;
  for (const Isa isa : available_isas()) {
    for (const Kernels& kernels : kernels_by_tuning(isa)) {
      if (kernels.pack_tile != nullptr) all.push_back(kernels);
    }
  }
  return all;
}

class PackedTiles : public testing::Test {
 protected:
  void SetUp() override {
    if (all_.empty()) GTEST_SKIP() << "no kernels of this processor pack tiles";
  }
  const std::vector<Kernels> all_ = packing_kernels();
};

using TileRows = std::vector<float>;  // of a tile, [kTilePositions, n_dims]

TileRows normal_tile(const char* seed, uint32_t n_dims) {
  return conformance::normal_values(seed, size_t{kTilePositions} * n_dims);
}

// One slot of two heads; blocks are filled with the same rows in both.
class PackingCache {
 public:
  PackingCache(const Kernels& kernels, uint32_t n_dims, bool packs = true)
      : kernels_(kernels),
        shape_{0, 2, n_dims, n_dims},
        kv_({&shape_, 1}, 1, kTilePositions, KvType::kBF16, KvType::kBF16,
            packs ? &kernels_ : nullptr) {
    EXPECT_TRUE(kv_.allocate(std::array{kCacheBlocks}).ok());
    EXPECT_EQ(kv_.packs(0), packs);
  }

  void fill(int32_t block, const TileRows& keys, const TileRows& values, uint32_t from = 0) {
    const size_t n = shape_.k_head_dim;
    for (uint32_t p = from; p < kTilePositions; ++p) {
      for (const uint32_t head : {0u, 1u}) {
        kv_.store(kernels_, 0, head, block, p, keys.data() + p * n, values.data() + p * n);
      }
    }
  }
  // Whether it is packed now.
  bool pack(int32_t block, uint32_t head = 1) {
    auto scratch = AlignedBuffer::allocate(PackedTile::packed_bytes(shape_.k_head_dim), "a tile");
    EXPECT_TRUE(scratch.ok());
    kv_.pack(0, head, block, (*scratch).data());
    return tile(block, head).packed.first != nullptr;
  }
  [[nodiscard]] KvTile tile(int32_t block, uint32_t head = 1) const {
    return kv_.tile(0, {&block, head, 0}, 0, kTilePositions);
  }
  [[nodiscard]] std::vector<uint8_t> image(int32_t block) const {
    conformance::ProgramBuilder program;
    program.add_kv_group();
    program.add_kv_slot(shape_);
    const ProgramView view(program.build());
    const KvImages images(view, kTilePositions, BP_DTYPE_BF16, BP_DTYPE_BF16);
    std::vector<uint8_t> image(images.image_bytes(0));
    kv_.export_block(images, 0, block, image.data());
    return image;
  }
  KvCache& kv() { return kv_; }

 private:
  Kernels kernels_;
  bp_kv_slot shape_;
  KvCache kv_;
};

// Numbers of every kind that a tile keeps: some columns of zeros, some of large and of small
// numbers, and a few far below the others of their dimension.
TileRows varied_tile(const char* seed, uint32_t n_dims) {
  TileRows rows = normal_tile(seed, n_dims);
  for (uint32_t p = 0; p < kTilePositions; ++p) {
    float* const row = rows.data() + size_t{p} * n_dims;
    for (uint32_t d = 0; d < n_dims; ++d) row[d] *= std::ldexp(1.0f, static_cast<int>(d % 7) * 4);
    row[3] = 0;
    row[4] *= 0x1p-143f;  // subnormal numbers among them
    row[5] *= 0x1p90f;
  }
  rows[6] *= 0x1p-20f;
  rows[size_t{40} * n_dims + 7] = 0;
  rows[size_t{63} * n_dims + n_dims - 1] = -0.0f;
  rows[size_t{17} * n_dims + n_dims - 2] *= -0x1p-60f;
  return rows;
}

TEST_F(PackedTiles, LoseNothing) {
  for (const Kernels& kernels : all_) {
    for (const uint32_t n : kPackedDims) {
      PackingCache packed(kernels, n), whole(kernels, n, false);
      const TileRows keys = varied_tile("keys", n), values = varied_tile("values", n);
      for (const int32_t block : {1, 9, 19}) {
        packed.fill(block, keys, values);
        whole.fill(block, keys, values);
        EXPECT_EQ(packed.image(block), whole.image(block));
        ASSERT_TRUE(packed.pack(block)) << n;
        EXPECT_EQ(packed.image(block), whole.image(block)) << n << " dimensions";
      }
    }
  }
}

TEST_F(PackedTiles, AreCountedAsWhatIsReadOfThem) {
  for (const Kernels& kernels : all_) {
    for (const uint32_t n : kPackedDims) {
      PackingCache packed(kernels, n), whole(kernels, n, false);
      const uint64_t whole_bytes = whole.kv().packed_block_bytes(0);
      EXPECT_EQ(whole_bytes, whole.kv().block_bytes(0));
      EXPECT_EQ(packed.kv().packed_block_bytes(0), 2 * PackedTile::packed_bytes(n));
      EXPECT_GE(packed.kv().packed_block_bytes(0), whole_bytes / 4 * 3);
      EXPECT_LE(packed.kv().packed_block_bytes(0), whole_bytes / 20 * 17);
    }
  }
}

// Blocks that are written on have what they had.
TEST_F(PackedTiles, OpenAgain) {
  constexpr uint32_t kFrom = 40;
  for (const Kernels& kernels : all_) {
    for (const uint32_t n : kPackedDims) {
      PackingCache packed(kernels, n), whole(kernels, n, false);
      const TileRows first = varied_tile("first", n), second = varied_tile("second", n);
      for (PackingCache* cache : {&packed, &whole}) {
        cache->fill(2, first, first);
        cache->fill(3, second, second);  // a neighbour, which stays as it is
      }
      ASSERT_TRUE(packed.pack(2) && packed.pack(3) && packed.pack(3, 0));
      packed.kv().open(0, 2, kFrom);
      EXPECT_EQ(packed.tile(2).packed.first, nullptr);
      EXPECT_EQ(packed.image(2), whole.image(2));
      for (PackingCache* cache : {&packed, &whole}) cache->fill(2, second, first, kFrom);
      EXPECT_EQ(packed.image(2), whole.image(2));
      EXPECT_EQ(packed.image(3), whole.image(3));
      // From the beginning on nothing of it is wanted.
      packed.kv().open(0, 3, 0);
      EXPECT_EQ(packed.tile(3).packed.first, nullptr);
      EXPECT_EQ(packed.tile(3, 0).packed.first, nullptr);
    }
  }
}

TEST_F(PackedTiles, AreCopiedAndCleared) {
  for (const Kernels& kernels : all_) {
    PackingCache packed(kernels, 64), whole(kernels, 64, false);
    const TileRows rows = varied_tile("rows", 64);
    for (PackingCache* cache : {&packed, &whole}) cache->fill(7, rows, rows);
    ASSERT_TRUE(packed.pack(7));  // of head 1 alone
    packed.kv().apply({BP_BLOCK_COPY, BP_BLOCK_OF_GROUP, 0, 7, 8});
    EXPECT_EQ(packed.image(8), whole.image(7));
    EXPECT_NE(packed.tile(8).packed.first, nullptr);
    EXPECT_EQ(packed.tile(8, 0).packed.first, nullptr);
    packed.kv().apply({BP_BLOCK_CLEAR, BP_BLOCK_OF_GROUP, 0, 0, 7});
    EXPECT_EQ(packed.image(7), whole.image(1));  // nothing but zeros
    EXPECT_EQ(packed.image(8), whole.image(7));
  }
}

// What would not fit, or needs care of its own, stays as it is.
TEST_F(PackedTiles, StayWholeWhereTooMuchStandsApart) {
  constexpr uint32_t kN = 64;
  for (const Kernels& kernels : all_) {
    for (const float odd : {std::numeric_limits<float>::infinity(), std::nanf("")}) {
      PackingCache cache(kernels, kN);
      TileRows rows = normal_tile("rows", kN);
      rows[100] = odd;
      cache.fill(1, rows, normal_tile("others", kN));
      EXPECT_FALSE(cache.pack(1));
      cache.fill(1, normal_tile("others", kN), rows);
      EXPECT_FALSE(cache.pack(1));
    }
    for (const uint32_t n_zeros : {PackedTile::most_apart(kN), PackedTile::most_apart(kN) + 1}) {
      PackingCache packed(kernels, kN), whole(kernels, kN, false);
      TileRows rows(size_t{kTilePositions} * kN, 1.5f);
      for (uint32_t i = 0; i < n_zeros; ++i) rows[size_t{i} * 61] = 0;
      const TileRows others(rows.size(), 1.25f);
      for (PackingCache* cache : {&packed, &whole}) cache->fill(1, others, rows);
      EXPECT_EQ(packed.pack(1), n_zeros == PackedTile::most_apart(kN));
      EXPECT_EQ(packed.image(1), whole.image(1));
    }
  }
}

// So that memory is read in one stream.
TEST_F(PackedTiles, OfARunLieTogether) {
  constexpr int32_t kRun = kRunPositions / kTilePositions;
  const auto n_bytes = static_cast<ptrdiff_t>(PackedTile::packed_bytes(128));
  PackingCache cache(all_[0], 128);
  const TileRows rows = normal_tile("rows", 128);
  for (int32_t block = 0; block < 2 * kRun; ++block) {
    cache.fill(block, rows, rows);
    ASSERT_TRUE(cache.pack(block));
    if (block % kRun == 0) continue;
    EXPECT_EQ(cache.tile(block).packed.first - cache.tile(block - 1).packed.first, n_bytes);
  }
}

// As score_tile takes them, [n_rows, n_dims].
std::vector<float> packed_queries(const Kernels& kernels, uint32_t n_dims, uint32_t n_rows) {
  std::vector<float> queries = conformance::normal_values("queries", size_t{n_rows} * n_dims);
  for (uint32_t r = 0; r < n_rows; ++r) {
    kernels.pack_query[static_cast<size_t>(KvType::kBF16)](queries.data() + size_t{r} * n_dims,
                                                           n_dims);
  }
  return queries;
}

// Scores, and sums of values weighed with what softmax makes of them, [n_rows, 64 + n_dims].
std::vector<float> attended_tile(const Kernels& kernels, const KvTile& tile, uint32_t n_dims,
                                 uint32_t n_rows) {
  constexpr auto kType = static_cast<size_t>(KvType::kBF16);
  const std::vector<float> queries = packed_queries(kernels, n_dims, n_rows);
  std::vector<float> scores(size_t{n_rows} * kTilePositions), out(size_t{n_rows} * n_dims, 0.5f);
  kernels.score_tile[kType](tile, queries.data(), n_dims, n_rows, n_dims, scores.data());
  std::vector<float> all = scores;
  std::vector<float> maxima(n_rows, -std::numeric_limits<float>::infinity());
  std::vector<float> sums(size_t{n_rows} * 16), factors(n_rows);
  kernels.softmax_tile[kType](scores.data(), n_rows, 0, kTilePositions, 1e-3f, 0,
                              {maxima.data(), sums.data(), 16, factors.data()});
  kernels.accumulate_tile[kType](tile, scores.data(), n_rows, 0, kTilePositions, out.data(),
                                 n_dims);
  all.insert(all.end(), out.begin(), out.end());
  return all;
}

TEST_F(PackedTiles, AreReadAsTheyWere) {
  for (const Kernels& kernels : all_) {
    for (const uint32_t n : kPackedDims) {
      // Most pieces have nothing that stands apart, then some.
      for (const bool is_varied : {false, true}) {
        PackingCache packed(kernels, n), whole(kernels, n, false);
        TileRows keys = normal_tile("keys", n), values = normal_tile("values", n);
        if (is_varied) {
          for (uint32_t i = 0; i < n / 5; ++i) {
            keys[size_t{i} * 97] *= 0x1p-17f;
            values[size_t{i} * 89] *= -0x1p-19f;
          }
        }
        for (PackingCache* cache : {&packed, &whole}) cache->fill(1, keys, values);
        ASSERT_TRUE(packed.pack(1));
        for (uint32_t n_rows = 1; n_rows <= kernels.packed_rows; ++n_rows) {
          EXPECT_EQ(attended_tile(kernels, packed.tile(1), n, n_rows),
                    attended_tile(kernels, whole.tile(1), n, n_rows))
              << n << " dimensions, " << n_rows << " rows";
        }
      }
    }
  }
}

// Groups [first, end) alone, as a window may cut them: their scores are those of all.
TEST_F(PackedTiles, ScoreSomeGroups) {
  constexpr uint32_t kN = 64, kRows = 3;
  constexpr auto kType = static_cast<size_t>(KvType::kBF16);
  for (const Kernels& kernels : all_) {
    PackingCache packed(kernels, kN);
    packed.fill(1, normal_tile("keys", kN), normal_tile("values", kN));
    ASSERT_TRUE(packed.pack(1));
    const std::vector<float> queries = packed_queries(kernels, kN, kRows);
    const auto scores_of = [&](uint32_t first, uint32_t end) {
      std::vector<float> scores(size_t{kRows} * kTilePositions);
      KvTile tile = packed.tile(1);
      tile.first = first;
      tile.end = end;
      kernels.score_tile[kType](tile, queries.data(), kN, kRows, kN, scores.data());
      return scores;
    };
    const std::vector<float> all = scores_of(0, kTileGroups);
    for (uint32_t first = 0; first < kTileGroups; ++first) {
      for (uint32_t end = first + 1; end <= kTileGroups; ++end) {
        const std::vector<float> some = scores_of(first, end);
        for (uint32_t r = 0; r < kRows; ++r) {
          for (uint32_t i = 16 * first; i < 16 * end; ++i) {
            const size_t at = size_t{r} * kTilePositions + i;
            ASSERT_EQ(some[at], all[at]) << first << " to " << end << ", position " << i;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace bp::cpu
