// The loops over code books give the same bits on every processor, and drop no entry that is the
// best for some scale.

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "backplane/reference/codebooks.hpp"
#include "core/quantize/codebook.hpp"
#include "core/quantize/codebook_kernels.hpp"

namespace bp::quantize {
namespace {

constexpr int kEntries = 512, kDims = 8;

struct Projected {
  std::vector<float> a, b;
};

Projected project(const CodebookKernels& kernels, uint32_t seed) {
  static const std::vector<float> values = codebook_values(reference::kIq2XsGrid);
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 1);
  float wx[kDims], w[kDims];
  for (int j = 0; j < kDims; ++j) {
    w[j] = std::abs(normal(random));
    wx[j] = w[j] * std::abs(normal(random));
  }
  Projected out{std::vector<float>(kEntries), std::vector<float>(kEntries)};
  kernels.project(values.data(), kDims, kEntries, wx, w, out.a.data(), out.b.data());
  return out;
}

TEST(CodebookKernels, AreTheSameForEveryInstructionSet) {
  const CodebookKernels& baseline = *usable_codebook_kernels().front();
  for (const CodebookKernels* kernels : usable_codebook_kernels()) {
    for (uint32_t seed = 0; seed < 20; ++seed) {
      const Projected expected = project(baseline, seed), found = project(*kernels, seed);
      ASSERT_EQ(found.a, expected.a);
      ASSERT_EQ(found.b, expected.b);
      const float* a = found.a.data();
      const float* b = found.b.data();
      const int best = baseline.best(a, b, kEntries, 0.03f);
      ASSERT_EQ(kernels->best(a, b, kEntries, 0.03f), best);
      std::vector<uint8_t> keep(kEntries, 1), keep_expected(kEntries, 1);
      baseline.drop_dominated(a, b, kEntries, 0.02f, 0.05f, best, keep_expected.data());
      kernels->drop_dominated(a, b, kEntries, 0.02f, 0.05f, best, keep.data());
      ASSERT_EQ(keep, keep_expected);
    }
  }
}

TEST(CodebookKernels, DropNoEntryThatIsTheBestForSomeScale) {
  const CodebookKernels& kernels = *usable_codebook_kernels().back();
  constexpr float kLow = 0.01f, kHigh = 0.06f;
  for (uint32_t seed = 0; seed < 20; ++seed) {
    const Projected p = project(kernels, seed);
    std::vector<uint8_t> keep(kEntries, 1);
    for (const float s : {kLow, 0.5f * (kLow + kHigh), kHigh}) {
      const int other = kernels.best(p.a.data(), p.b.data(), kEntries, s);
      kernels.drop_dominated(p.a.data(), p.b.data(), kEntries, kLow, kHigh, other, keep.data());
    }
    for (int i = 0; i <= 100; ++i) {
      const float s = kLow + (kHigh - kLow) * static_cast<float>(i) / 100;
      EXPECT_EQ(keep[static_cast<size_t>(kernels.best(p.a.data(), p.b.data(), kEntries, s))], 1);
    }
  }
}

}  // namespace
}  // namespace bp::quantize
