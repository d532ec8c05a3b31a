#include "core/kv/prefix_cache.hpp"

#include <gtest/gtest.h>

namespace bp::kv {
namespace {

uint64_t collide(const BlockContent&) {
  return 7;
}

class PrefixCacheTest : public ::testing::TestWithParam<ContentHash> {
 protected:
  PrefixCache cache{16, GetParam()};
  std::vector<int32_t> a{1, 2, 3}, b{4, 5, 6}, c{7, 8, 9};
};

TEST_P(PrefixCacheTest, FindsByContentAndWhatCameBefore) {
  const PrefixNode first = cache.insert({kEmptyPrefix, "", a}, 1);
  const PrefixNode second = cache.insert({first, "", b}, 2);
  EXPECT_EQ(cache.find({kEmptyPrefix, "", a})->block, 1);
  EXPECT_EQ(cache.find({first, "", b})->block, 2);
  EXPECT_FALSE(cache.find({kEmptyPrefix, "", b}));
  EXPECT_FALSE(cache.find({second, "", b}));
  EXPECT_FALSE(cache.find({first, "", c}));
}

TEST_P(PrefixCacheTest, SaltsDoNotMix) {
  cache.insert({kEmptyPrefix, "x", a}, 1);
  EXPECT_FALSE(cache.find({kEmptyPrefix, "y", a}));
  EXPECT_NE(cache.insert({kEmptyPrefix, "y", a}, 2), cache.find({kEmptyPrefix, "x", a}));
}

TEST_P(PrefixCacheTest, KnownContentKeepsItsBlock) {
  const PrefixNode node = cache.insert({kEmptyPrefix, "", a}, 1);
  EXPECT_EQ(cache.insert({kEmptyPrefix, "", a}, 2), node);
  EXPECT_FALSE(cache.contains(2));
  EXPECT_EQ(cache.find({kEmptyPrefix, "", a})->block, 1);
}

TEST_P(PrefixCacheTest, EvictsTheLeastRecentlyUsedIdleBlock) {
  cache.insert({kEmptyPrefix, "", a}, 1);
  cache.insert({kEmptyPrefix, "", b}, 2);
  cache.insert({kEmptyPrefix, "", c}, 3);
  for (const BlockId block : {1, 2, 3}) cache.set_idle(block);
  cache.set_used(1);
  EXPECT_EQ(cache.n_idle(), 2u);
  cache.set_idle(1);
  EXPECT_EQ(cache.evict(), 2);
  EXPECT_EQ(cache.evict(), 3);
  EXPECT_EQ(cache.evict(), 1);
  EXPECT_EQ(cache.evict(), std::nullopt);
  EXPECT_FALSE(cache.find({kEmptyPrefix, "", a}));
  EXPECT_EQ(cache.n_registered(), 0u);
}

TEST_P(PrefixCacheTest, AnEvictedPrefixDoesNotComeBackWithOthersContent) {
  const PrefixNode first = cache.insert({kEmptyPrefix, "", a}, 1);
  cache.insert({first, "", b}, 2);
  cache.set_idle(1);
  ASSERT_EQ(cache.evict(), 1);
  // The block of the parent holds something else now; its old child must not follow it.
  const PrefixNode other = cache.insert({kEmptyPrefix, "", c}, 1);
  EXPECT_FALSE(cache.find({other, "", b}));
  const PrefixNode again = cache.insert({kEmptyPrefix, "", a}, 3);
  EXPECT_NE(again, first);
  EXPECT_FALSE(cache.find({again, "", b}));
}

INSTANTIATE_TEST_SUITE_P(Hashes, PrefixCacheTest, ::testing::Values(&hash_content, &collide));

}  // namespace
}  // namespace bp::kv
