// Kernels of attention as processors of several makes want them.

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "backends/cpu/cpu_features.hpp"
#include "backends/cpu/kv_cache.hpp"
#include "sdk/conformance/support/random_values.hpp"
#include "tests/backends/cpu/tunings.hpp"

namespace bp::cpu {
namespace {

constexpr uint32_t kAttendedDims = 96, kAttendedTiles = 2;
constexpr size_t kGatheredStride = kAttendedDims + 16;

// What n_rows queries gather of two tiles: scores and sums of values.
std::vector<float> gathered(const Kernels& kernels, const KvCache& kv, KvType type,
                            uint32_t n_rows) {
  const int i = static_cast<int>(type);
  const auto place = [](const int32_t* blocks, uint32_t tile) {
    return KvCache::Place{blocks, 0, tile * kTilePositions};
  };
  const std::array<int32_t, kAttendedTiles> blocks = {2, 1};
  std::vector<float> queries =
      conformance::normal_values("queries", size_t{n_rows} * kAttendedDims);
  if (const auto pack = kernels.pack_query[i]) {
    for (uint32_t r = 0; r < n_rows; ++r) pack(queries.data() + r * kAttendedDims, kAttendedDims);
  }
  std::vector<float> out(n_rows * kGatheredStride), all;
  std::vector<float> maximum(n_rows, 0);
  for (uint32_t t = 0; t < kAttendedTiles; ++t) {
    KvTile tile = kv.tile(0, place(blocks.data(), t), 0, kAttendedTiles * kTilePositions - 7);
    tile.ahead = kv.distance(0, place(blocks.data(), t), place(blocks.data(), kAttendedTiles - 1));
    tile.wanted_end = kTileGroups;
    const uint32_t end = t + 1 < kAttendedTiles ? kTilePositions : kTilePositions - 7;
    std::vector<float> scores(n_rows * kTilePositions);
    kernels.score_tile[i](tile, queries.data(), kAttendedDims, n_rows, kAttendedDims,
                          scores.data());
    all.insert(all.end(), scores.begin(), scores.end());
    for (uint32_t r = 0; r < n_rows; ++r) {
      kernels.softmax_tile[i](scores.data() + r * kTilePositions, 0, end, 0.05f, 0, &maximum[r],
                              out.data() + r * kGatheredStride + kAttendedDims);
    }
    kernels.accumulate_tile[i](tile, scores.data(), n_rows, 0, end, out.data(), kGatheredStride);
  }
  all.insert(all.end(), out.begin(), out.end());
  return all;
}

// Ways to ask for what is read next change no result.
TEST(AttentionKernels, GiveTheSameWhateverTheTuning) {
  const bp_kv_slot slot{0, 1, kAttendedDims, kAttendedDims};
  const std::vector<float> x =
      conformance::normal_values("cache", size_t{kAttendedTiles} * kTilePositions * kAttendedDims);
  for (const Isa isa : available_isas()) {
    for (const KvType type :
         {KvType::kF32, KvType::kF16, KvType::kBF16, KvType::kQ8_0, KvType::kQ4_0}) {
      KvCache kv({&slot, 1}, 1, kTilePositions, type, type);
      ASSERT_TRUE(kv.allocate(std::array{kAttendedTiles + 1}).ok());
      for (uint32_t p = 0; p < kAttendedTiles * kTilePositions; ++p) {
        const float* row = x.data() + size_t{p} * kAttendedDims;
        kv.store(kernels_of(isa), 0, 0, p < kTilePositions ? 2 : 1, p % kTilePositions, row, row);
      }
      const auto ways = kernels_by_tuning(isa);
      for (const uint32_t n_rows : {1u, 2u, 4u, 5u, 6u, 7u, 13u, kMaxQueryRows}) {
        const std::vector<float> expected = gathered(ways[0], kv, type, n_rows);
        for (const Kernels& kernels : ways) {
          EXPECT_EQ(gathered(kernels, kv, type, n_rows), expected)
              << isa_name(isa) << " type " << static_cast<int>(type) << ", " << n_rows << " rows";
        }
      }
    }
  }
}

}  // namespace
}  // namespace bp::cpu
