// Kernels of attention as processors of several makes want them.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cfenv>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "backends/cpu/cpu_features.hpp"
#include "backends/cpu/kv_cache.hpp"
#include "sdk/conformance/support/random_values.hpp"
#include "tests/backends/cpu/tunings.hpp"

namespace bp::cpu {
namespace {

constexpr uint32_t kAttendedDims = 96, kAttendedTiles = 2;
constexpr size_t kGatheredStride = kAttendedDims + 16;
constexpr uint32_t kWeighedDims = 336;  // more scales than go together, half of the last one
constexpr size_t kWeighedStride = kWeighedDims + 16;

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
  std::vector<float> maximum(n_rows, 0), factors(n_rows);
  for (uint32_t t = 0; t < kAttendedTiles; ++t) {
    KvTile tile = kv.tile(0, place(blocks.data(), t), 0, kAttendedTiles * kTilePositions - 7);
    kv.look_ahead(0, place(blocks.data(), t), place(blocks.data(), kAttendedTiles - 1), tile);
    tile.wanted_end = kTileGroups;
    const uint32_t end = t + 1 < kAttendedTiles ? kTilePositions : kTilePositions - 7;
    std::vector<float> scores(n_rows * kTilePositions);
    kernels.score_tile[i](tile, queries.data(), kAttendedDims, n_rows, kAttendedDims,
                          scores.data());
    all.insert(all.end(), scores.begin(), scores.end());
    kernels.softmax_tile[i](
        scores.data(), n_rows, 0, end, 0.05f, 0,
        {maximum.data(), out.data() + kAttendedDims, kGatheredStride, factors.data()});
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

// Floats that a tile's probabilities take: 64, or half as many where they are bf16 and leave the
// other half of the scores as it was.
size_t probability_floats(const Kernels& kernels, KvType type) {
  std::array<float, kTilePositions> scores;
  scores.fill(3);
  std::array<float, 16> sums{};
  float maximum = -std::numeric_limits<float>::infinity(), factor = 0;
  kernels.softmax_tile[static_cast<int>(type)](scores.data(), 1, 0, kTilePositions, 0.05f, 0,
                                               {&maximum, sums.data(), 16, &factor});
  return scores.back() == 3 ? kTilePositions / 2 : kTilePositions;
}

struct SoftmaxCase {
  uint32_t first = 0, end = kTilePositions;
  float softcap = 0;
};

// The softmax of rows whose maxima so far are given, over positions [first, end) of a tile: of each
// row its probabilities in the form of the type, then the maximum, the sums and the factor.
std::vector<std::vector<float>> softmaxed(const Kernels& kernels, KvType type,
                                          std::vector<float> scores, std::vector<float> maxima,
                                          const SoftmaxCase& of) {
  const size_t n_rows = maxima.size(), n_floats = probability_floats(kernels, type);
  std::vector<float> sums(n_rows * 16, 0.25f), factors(n_rows);
  kernels.softmax_tile[static_cast<int>(type)](scores.data(), static_cast<uint32_t>(n_rows),
                                               of.first, of.end, 0.05f, of.softcap,
                                               {maxima.data(), sums.data(), 16, factors.data()});
  std::vector<std::vector<float>> all(n_rows);
  for (size_t r = 0; r < n_rows; ++r) {
    const auto probabilities = scores.begin() + static_cast<ptrdiff_t>(r * kTilePositions);
    all[r].assign(probabilities, probabilities + static_cast<ptrdiff_t>(n_floats));
    all[r].push_back(maxima[r]);
    const auto own = sums.begin() + static_cast<ptrdiff_t>(16 * r);
    all[r].insert(all[r].end(), own, own + 16);
    all[r].push_back(factors[r]);
  }
  return all;
}

// However many rows are beside it, a row becomes what it becomes alone: rows whose maximum rises,
// stays, or was nothing.
TEST(AttentionKernels, SoftmaxOfRowsIsThatOfEach) {
  std::vector<float> scores =
      conformance::normal_values("scores", size_t{kMaxQueryRows} * kTilePositions);
  std::vector<float> maxima(kMaxQueryRows);
  for (float& score : scores) score *= 40;
  for (uint32_t r = 0; r < kMaxQueryRows; ++r) {
    maxima[r] = std::array{-std::numeric_limits<float>::infinity(), 0.5f, 60.0f}[r % 3];
  }
  for (const KvType type : {KvType::kF32, KvType::kBF16, KvType::kQ8_0}) {
    for (const SoftmaxCase& of : {SoftmaxCase{}, {5, 49, 0}, {0, kTilePositions, 3.0f}}) {
      for (const Isa isa : available_isas()) {
        std::vector<std::vector<float>> alone;
        for (uint32_t r = 0; r < kMaxQueryRows; ++r) {
          const auto own = scores.begin() + r * kTilePositions;
          alone.push_back(
              softmaxed(kernels_of(isa), type, {own, own + kTilePositions}, {maxima[r]}, of)[0]);
        }
        for (uint32_t n = 2; n <= kMaxQueryRows; ++n) {
          EXPECT_EQ(softmaxed(kernels_of(isa), type,
                              {scores.begin(), scores.begin() + n * kTilePositions},
                              {maxima.begin(), maxima.begin() + n}, of),
                    std::vector(alone.begin(), alone.begin() + n))
              << isa_name(isa) << " type " << static_cast<int>(type) << ", " << n << " rows";
        }
      }
    }
  }
}

// What was left outside the range changes nothing, and nothing that comes out as 0 was subnormal on
// the way, for which some processors take hundreds of cycles.
TEST(AttentionKernels, SoftmaxTakesNothingFromOutsideItsRange) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const std::vector<float> x = conformance::normal_values("scores", kTilePositions);
  for (const Isa isa : available_isas()) {
    for (const KvType type : {KvType::kF32, KvType::kBF16, KvType::kQ8_0}) {
      for (const auto& [first, end] :
           {std::pair{0u, kTilePositions}, {0u, 33u}, {17u, kTilePositions}, {5u, 6u}}) {
        std::vector<float> expected;
        for (const float outside :
             {0.0f, 1e-40f, 1e30f, kInfinity, std::numeric_limits<float>::quiet_NaN()}) {
          std::vector<float> scores(kTilePositions);
          for (uint32_t p = 0; p < kTilePositions; ++p) {
            scores[p] = p >= first && p < end ? x[p] : outside;
          }
          std::feclearexcept(FE_ALL_EXCEPT);
          const std::vector<float> got =
              softmaxed(kernels_of(isa), type, scores, {-kInfinity}, {first, end})[0];
          EXPECT_FALSE(std::fetestexcept(FE_UNDERFLOW)) << isa_name(isa) << " " << outside;
          if (expected.empty()) expected = got;
          EXPECT_EQ(got, expected) << isa_name(isa) << " " << first << " " << outside;
        }
      }
    }
  }
}

// What kernels find of values for positions [first, end), one of which or beside which is a NaN.
bool finite_beside(const Kernels& kernels, KvType type, uint32_t position, uint32_t first,
                   uint32_t end) {
  const bp_kv_slot slot{0, 1, kAttendedDims, kAttendedDims};
  const std::array<int32_t, 1> blocks = {1};
  KvCache kv({&slot, 1}, 1, kTilePositions, type, type);
  EXPECT_TRUE(kv.allocate(std::array{2u}).ok());
  const std::vector<float> key(kAttendedDims, 1);
  std::vector<float> value = key;
  value[kAttendedDims - 1] = std::numeric_limits<float>::quiet_NaN();
  kv.store(kernels, 0, 0, 1, position, key.data(), value.data());
  const KvTile tile = kv.tile(0, {blocks.data(), 0, 0}, 0, kTilePositions);
  return kernels.values_finite[static_cast<int>(type)](tile, first, end);
}

// Whether all is finite that is read: positions, pairs of them or, in tile registers, halves of a
// tile; a NaN beyond that does not matter.
TEST(AttentionKernels, FindWhatIsNotFinite) {
  for (const Isa isa : available_isas()) {
    const Kernels& kernels = kernels_of(isa);
    for (const KvType type : {KvType::kF32, KvType::kF16, KvType::kBF16}) {
      for (const uint32_t first : {0u, 5u, 40u}) {
        const uint32_t end = first + 7;
        for (uint32_t p = 0; p < kTilePositions; ++p) {
          const bool is_finite = finite_beside(kernels, type, p, first, end);
          const uint32_t together = type != KvType::kBF16 ? 1 : isa == Isa::kAmx ? 32 : 2;
          const bool is_read =
              p >= first / together * together && p < (end + together - 1) / together * together;
          EXPECT_EQ(is_finite, !is_read) << isa_name(isa) << " " << p << " of " << first;
        }
      }
    }
  }
}

// What rows of probabilities, 64 floats apart, gather of the values of positions [first, end).
std::vector<float> weighed(const Kernels& kernels, KvType type, const KvTile& tile,
                           const std::vector<float>& probabilities, uint32_t first, uint32_t end) {
  const size_t n_rows = probabilities.size() / kTilePositions;
  std::vector<float> out(n_rows * kWeighedStride);
  kernels.accumulate_tile[static_cast<int>(type)](tile, probabilities.data(),
                                                  static_cast<uint32_t>(n_rows), first, end,
                                                  out.data(), kWeighedStride);
  return out;
}

// Weights of integers are rounded to a byte below a row's largest product of a probability and a
// value, not below the largest of each: the first position of a text often has most of the one and
// least of the other. They are the same on every instruction set, for any number of rows.
TEST(AttentionKernels, WeighIntegersPrecisely) {
  constexpr uint32_t kFirst = 5, kEnd = 59, kMostRows = 9;
  const bp_kv_slot slot{0, 1, kWeighedDims, kWeighedDims};
  const std::array<int32_t, 1> blocks = {1};
  std::vector<float> probabilities =
      conformance::normal_values("probabilities", size_t{kMostRows} * kTilePositions);
  for (size_t i = 0; i < probabilities.size(); ++i) {
    const uint32_t p = i % kTilePositions;
    const bool is_seen = p >= kFirst && p < kEnd;
    probabilities[i] = !is_seen      ? 0
                       : p == kFirst ? 1
                                     : 0.02f * std::exp(-3 * std::abs(probabilities[i]));
  }
  std::vector<float> x =
      conformance::normal_values("values", size_t{kTilePositions} * kWeighedDims);
  for (uint32_t c = 0; c < kWeighedDims; ++c) x[kFirst * kWeighedDims + c] *= 0x1p-9f;
  for (const KvType type : {KvType::kQ8_0, KvType::kQ4_0}) {
    KvCache kv({&slot, 1}, 1, kTilePositions, type, type);
    ASSERT_TRUE(kv.allocate(std::array{2u}).ok());
    for (uint32_t p = 0; p < kTilePositions; ++p) {
      const float* row = x.data() + size_t{p} * kWeighedDims;
      kv.store(kernels_of(Isa::kScalar), 0, 0, 1, p, row, row);
    }
    const KvTile tile = kv.tile(0, {blocks.data(), 0, 0}, 0, kTilePositions);
    std::vector<float> expected;
    for (const Isa isa : available_isas()) {
      const Kernels& kernels = kernels_of(isa);
      for (const uint32_t n_rows : {kMostRows, 4u, 3u, 2u, 1u}) {
        const std::vector<float> rows(probabilities.begin(),
                                      probabilities.begin() + n_rows * kTilePositions);
        std::vector<float> out = weighed(kernels, type, tile, rows, kFirst, kEnd);
        if (expected.empty()) expected = out;
        const std::vector<float> same(expected.begin(), expected.begin() + n_rows * kWeighedStride);
        EXPECT_EQ(out, same) << isa_name(isa) << ", " << n_rows << " rows";
      }
    }
    // Rows whose probabilities are all small, since others of the context outweigh them, lose
    // nothing.
    constexpr float kSmall = 0x1p-20f;
    std::vector<float> small = probabilities;
    for (float& p : small) p *= kSmall;
    const std::vector<float> of_small =
        weighed(kernels_of(Isa::kScalar), type, tile, small, kFirst, kEnd);
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(of_small[i], expected[i] * kSmall);
    std::vector<double> exact(expected.size());
    std::array<float, kMostRows> largest{};
    for (uint32_t p = kFirst; p < kEnd; ++p) {
      std::vector<float> alone(kTilePositions);
      alone[p] = 1;
      const std::vector<float> value =
          weighed(kernels_of(Isa::kScalar), type, tile, alone, p, p + 1);
      for (uint32_t c = 0; c < kWeighedDims; ++c) {
        EXPECT_NEAR(value[c], x[size_t{p} * kWeighedDims + c], type == KvType::kQ8_0 ? 0.02 : 0.4);
        for (uint32_t r = 0; r < kMostRows; ++r) {
          const float product = probabilities[r * kTilePositions + p] * value[c];
          largest[r] = std::max(largest[r], std::abs(product));
          exact[r * kWeighedStride + c] += double{product};
        }
      }
    }
    // Deviations of the sum of as many evenly distributed errors.
    const double unit = 1.0 / (type == KvType::kQ8_0 ? 254 : 127);
    const double deviations = 4.5 * unit * std::sqrt((kEnd - kFirst) / 12.0);
    for (size_t i = 0; i < exact.size(); ++i) {
      const double bound = deviations * double{largest[i / kWeighedStride]};
      EXPECT_NEAR(expected[i], exact[i], bound) << "type " << static_cast<int>(type);
    }
  }
}

}  // namespace
}  // namespace bp::cpu
