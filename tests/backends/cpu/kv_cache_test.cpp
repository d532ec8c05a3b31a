// Where a head's keys and values lie, as kernels are told.

#include "backends/cpu/kv_cache.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <limits>
#include <vector>

#include "backends/cpu/cpu_features.hpp"
#include "backends/cpu/kv_layout.hpp"

namespace bp::cpu {
namespace {

// Bytes from what the cache holds at one place to the same at another.
ptrdiff_t distance(const KvCache& kv, const KvCache::Place& from, const KvCache::Place& to) {
  KvTile tile{};
  kv.look_ahead(0, from, to, tile);
  return tile.ahead;
}

// What kernels ask the caches for is as far from what they read, whatever it is.
TEST(KvCacheTest, DistanceLeadsToTheSameOfAnotherBlockAndHead) {
  constexpr uint32_t kHeads = 3, kKeyDim = 96, kValueDim = 40;
  const bp_kv_slot shape{0, kHeads, kKeyDim, kValueDim};
  for (const auto& [k, v] :
       {std::pair{KvType::kF16, KvType::kF16}, std::pair{KvType::kBF16, KvType::kBF16},
        std::pair{KvType::kQ8_0, KvType::kQ4_0}}) {
    for (const uint32_t block_size : {64u, 128u}) {
      KvCache kv({&shape, 1}, 1, block_size, k, v);
      ASSERT_TRUE(kv.allocate(std::array{4u}).ok());
      const int32_t blocks[] = {3, 1, 2};
      const KvCache::Place from{blocks, 2, block_size + 3}, to{blocks, 1, 2 * block_size};
      const KvTile a = kv.tile(0, {blocks, from.head, block_size}, 0, 3 * block_size);
      const KvTile b = kv.tile(0, to, 0, 3 * block_size);
      const ptrdiff_t ahead = distance(kv, from, to);
      const auto leads = [&](const void* x, const void* y) {
        return static_cast<const uint8_t*>(x) + ahead == y;
      };
      for (uint32_t g = 0; g < kTileGroups; g += 2) {
        EXPECT_TRUE(leads(a.keys[g], b.keys[g]));
        EXPECT_TRUE(leads(a.values[g], b.values[g]));
        EXPECT_TRUE(leads(a.key_scales[g], b.key_scales[g]));
        EXPECT_TRUE(leads(a.value_scales[g], b.value_scales[g]));
      }
      EXPECT_EQ(distance(kv, to, from), -ahead);
    }
  }
}

TEST(KvCacheTest, DistanceLeadsToAnotherSequence) {
  const bp_kv_slot shape{0, 2, 32, 48};
  KvCache kv({&shape, 1}, 1, 64, KvType::kBF16, KvType::kBF16);
  ASSERT_TRUE(kv.allocate(std::array{4u}).ok());
  const int32_t one[] = {3, 1}, other[] = {2};
  const KvTile a = kv.tile(0, {one, 1, 64}, 0, 128), b = kv.tile(0, {other, 0, 0}, 0, 64);
  EXPECT_EQ(static_cast<const uint8_t*>(a.keys[0]) + distance(kv, {one, 1, 64}, {other, 0, 0}),
            b.keys[0]);
}

// Of 16 columns at a time, the last of them filled up with zeros; the pairs' other positions may be
// another thread's.
TEST(KvCacheTest, AValueLeavesTheOtherPositionOfItsPairsAlone) {
  constexpr uint32_t kColumns = 40, kRounded = 48, kPair = 5;
  constexpr uint16_t kOther = 0xabcd;
  std::vector<float> value(kColumns);
  for (uint32_t c = 0; c < kColumns; ++c) value[c] = 0.37f * static_cast<float>(c) - 7;
  value[3] = std::numeric_limits<float>::quiet_NaN();
  std::vector<uint16_t> narrow(kRounded);
  kernels_of(Isa::kScalar)
      .from_f32[static_cast<int>(FloatType::kBF16)](value.data(), narrow.data(), kColumns);
  for (const Isa isa : available_isas()) {
    for (const uint32_t position : {2 * kPair, 2 * kPair + 1}) {
      std::vector<uint16_t> pairs(size_t{kRounded} * kValuePairPositions, kOther);
      kernels_of(isa).store_value_pairs(
          value.data(), kColumns,
          pairs.data() + value_offset(KvType::kBF16, kRounded, position) / sizeof(uint16_t));
      std::vector<uint16_t> expected(pairs.size(), kOther);
      for (uint32_t c = 0; c < kRounded; ++c) {
        const uint32_t group = c / kKvLanes * kKvLanes * kValuePairPositions;
        expected[group + kPair * kValuePairElements + c % kKvLanes * 2 + position % 2] = narrow[c];
      }
      EXPECT_EQ(pairs, expected) << isa_name(isa) << " " << position;
    }
  }
}

// Neighbouring blocks of a head touch within a run; nothing overlaps or is left out, whatever is
// left for the last run.
TEST(KvCacheTest, NeighbouringBlocksOfAHeadLieTogetherInRuns) {
  constexpr uint32_t kHeads = 3, kBlockSize = 64, kRun = kRunPositions / kBlockSize;
  const bp_kv_slot shape{0, kHeads, 32, 48};
  for (const uint32_t n_blocks : {1u, kRun, 2 * kRun + 3}) {
    KvCache kv({&shape, 1}, 1, kBlockSize, KvType::kBF16, KvType::kBF16);
    ASSERT_TRUE(kv.allocate(std::array{n_blocks}).ok());
    const auto head_bytes = static_cast<ptrdiff_t>(kv.block_bytes(0) / kHeads);
    std::vector<const uint8_t*> places;
    for (uint32_t block = 0; block < n_blocks; ++block) {
      for (uint32_t head = 0; head < kHeads; ++head) {
        const auto blocks = std::array{static_cast<int32_t>(block)};
        const KvTile tile = kv.tile(0, {blocks.data(), head, 0}, 0, kBlockSize);
        places.push_back(static_cast<const uint8_t*>(tile.keys[0]));
        if (block % kRun == 0) continue;
        EXPECT_EQ(places.back() - places[places.size() - 1 - kHeads], head_bytes);
      }
    }
    std::ranges::sort(places);
    for (size_t i = 1; i < places.size(); ++i) EXPECT_EQ(places[i] - places[i - 1], head_bytes);
  }
}

// What the slots of a group hold of a run lies together too, so that a short context touches few
// pages however many layers there are; nothing overlaps, whatever is left for the last run.
TEST(KvCacheTest, SlotsOfAGroupLieTogetherInRuns) {
  constexpr uint32_t kBlockSize = 64, kRun = kRunPositions / kBlockSize;
  const std::array<bp_kv_slot, 4> shapes = {
      {{0, 3, 32, 48}, {1, 2, 64, 64}, {0, 1, 96, 32}, {0, 2, 64, 64}}};
  for (const uint32_t n_blocks : {1u, kRun, 2 * kRun + 3}) {
    KvCache kv(shapes, 2, kBlockSize, KvType::kBF16, KvType::kBF16);
    ASSERT_TRUE(kv.allocate(std::array{n_blocks, 1u}).ok());
    const auto begin_of = [&](uint32_t slot, uint32_t block, uint32_t head) {
      const auto blocks = std::array{static_cast<int32_t>(block)};
      return static_cast<const uint8_t*>(
          kv.tile(slot, {blocks.data(), head, 0}, 0, kBlockSize).keys[0]);
    };
    for (uint32_t first = 0; first < n_blocks; first += kRun) {
      const uint32_t n_run = std::min(kRun, n_blocks - first);
      const uint8_t* expected = begin_of(0, 0, 0) + first * kv.block_bytes(0);
      for (const uint32_t slot : {0u, 2u, 3u}) {
        const bp_kv_slot& shape = shapes[slot];
        const uint64_t head_bytes =
            kBlockSize * sizeof(uint16_t) * (shape.k_head_dim + shape.v_head_dim);
        for (uint32_t head = 0; head < shape.n_kv_heads; ++head) {
          EXPECT_EQ(begin_of(slot, first, head), expected) << slot << " " << first << " " << head;
          expected += n_run * head_bytes;
        }
      }
      EXPECT_EQ(expected, begin_of(0, 0, 0) + (first + n_run) * kv.block_bytes(0));
    }
  }
}

}  // namespace
}  // namespace bp::cpu
