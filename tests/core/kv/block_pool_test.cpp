#include "core/kv/block_pool.hpp"

#include <gmock/gmock.h>

#include <random>
#include <set>

namespace bp::kv {
namespace {

using ::testing::ElementsAre;

std::vector<BlockId> allocate(BlockPool& pool, uint32_t n, BlockId after = kNullBlock) {
  std::vector<BlockId> out;
  pool.allocate(n, after, out);
  return out;
}

void give_back(BlockPool& pool, BlockId block) {
  ASSERT_TRUE(pool.remove_user(block));
  pool.free(block);
}

TEST(BlockPoolTest, HandsOutAscendingRunsAndNeverTheNullBlock) {
  BlockPool pool(12);
  EXPECT_EQ(pool.n_free(), 11u);
  EXPECT_FALSE(pool.is_free(kNullBlock));
  EXPECT_THAT(allocate(pool, 3), ElementsAre(1, 2, 3));
  EXPECT_THAT(allocate(pool, 2), ElementsAre(4, 5));
  EXPECT_THAT(allocate(pool, 6), ElementsAre(6, 7, 8, 9, 10, 11));
  EXPECT_EQ(pool.n_free(), 0u);
}

TEST(BlockPoolTest, PrefersNeighboursThenARunLongEnough) {
  BlockPool pool(20);
  allocate(pool, 19);
  for (const BlockId block : {2, 3, 6, 10, 11, 12, 13}) give_back(pool, block);
  EXPECT_THAT(allocate(pool, 1, 5), ElementsAre(6));
  EXPECT_THAT(allocate(pool, 3), ElementsAre(10, 11, 12));
  EXPECT_THAT(allocate(pool, 3, 1), ElementsAre(2, 3, 13));
}

TEST(BlockPoolTest, CountsUsers) {
  BlockPool pool(4);
  const BlockId block = allocate(pool, 1)[0];
  pool.add_user(block);
  EXPECT_EQ(pool.n_users(block), 2u);
  EXPECT_FALSE(pool.remove_user(block));
  EXPECT_TRUE(pool.remove_user(block));
  EXPECT_FALSE(pool.is_free(block));
  pool.free(block);
  EXPECT_TRUE(pool.is_free(block));
}

TEST(BlockPoolTest, RandomTrafficLosesAndDoublesNothing) {
  std::mt19937 random(1);
  for (const uint32_t n_blocks : {2u, 64u, 65u, 129u, 500u}) {
    BlockPool pool(n_blocks);
    std::set<BlockId> held;
    for (int i = 0; i < 2000; ++i) {
      if (random() % 2 == 0 && pool.n_free() > 0) {
        const BlockId after = held.empty() ? kNullBlock : *held.rbegin();
        for (const BlockId block : allocate(pool, 1 + random() % pool.n_free(), after)) {
          ASSERT_TRUE(block > 0 && block < static_cast<BlockId>(n_blocks));
          ASSERT_TRUE(held.insert(block).second);
        }
      }
      for (auto it = held.begin(); it != held.end();) {
        if (random() % 3 != 0) {
          ++it;
          continue;
        }
        give_back(pool, *it);
        it = held.erase(it);
      }
      ASSERT_EQ(pool.n_free() + held.size(), n_blocks - 1);
    }
  }
}

}  // namespace
}  // namespace bp::kv
