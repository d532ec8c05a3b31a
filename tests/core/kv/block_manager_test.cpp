#include "core/kv/block_manager.hpp"

#include <gmock/gmock.h>

#include <memory>
#include <random>

namespace bp::kv {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<int32_t> count_up(int32_t n, int32_t first = 0) {
  std::vector<int32_t> tokens;
  for (int32_t i = 0; i < n; ++i) tokens.push_back(first + i);
  return tokens;
}

TEST(BlockManagerTest, ReservesAndReleases) {
  BlockManager kv({.n_blocks = 9, .block_size = 4});
  std::vector<bp_block_op> ops;
  BlockTable table;
  EXPECT_TRUE(kv.reserve(table, 0, 9, ops));
  EXPECT_THAT(table.blocks, ElementsAre(1, 2, 3));
  EXPECT_TRUE(kv.reserve(table, 9, 12, ops));
  EXPECT_EQ(table.blocks.size(), 3u);
  EXPECT_FALSE(kv.reserve(table, 12, 33, ops));
  EXPECT_EQ(table.blocks.size(), 3u);
  EXPECT_EQ(kv.n_used(), 3u);
  kv.release(table);
  EXPECT_EQ(kv.n_used(), 0u);
  EXPECT_THAT(ops, IsEmpty());
}

TEST(BlockManagerTest, AForkCopiesThePartialBlockOnlyWhenTwoShareIt) {
  BlockManager kv({.n_blocks = 9, .block_size = 4, .n_groups = 2});
  std::vector<bp_block_op> ops;
  BlockTable first;
  ASSERT_TRUE(kv.reserve(first, 0, 6, ops));
  BlockTable second = kv.fork(first, 6);
  EXPECT_EQ(kv.n_used(), 2u);
  EXPECT_EQ(kv.n_held(first, 6), 1u);
  ASSERT_TRUE(kv.reserve(first, 6, 7, ops));
  ASSERT_EQ(ops.size(), 2u);  // one for each group
  EXPECT_EQ(ops[0].source, second.blocks[1]);
  EXPECT_EQ(ops[0].destination, first.blocks[1]);
  EXPECT_EQ(ops[1].index, 1u);
  ops.clear();
  ASSERT_TRUE(kv.reserve(second, 6, 7, ops));
  EXPECT_THAT(ops, IsEmpty());
  EXPECT_EQ(kv.n_held(second, 6), 2u);
}

TEST(BlockManagerTest, FoundBlocksInUseTakeNothingAvailable) {
  BlockManager kv({.n_blocks = 9, .block_size = 4});
  std::vector<bp_block_op> ops;
  BlockTable first, found;
  const auto tokens = count_up(13);
  ASSERT_TRUE(kv.reserve(first, 0, 12, ops));
  kv.register_full(first, tokens, 12, "");
  PrefixMatch match;
  EXPECT_EQ(kv.find_prefix(match, tokens, ""), 12u);
  EXPECT_EQ(kv.n_in_use(match), 3u);
  BlockTable second = kv.fork(first, 12);
  kv.release(first);
  EXPECT_EQ(kv.n_in_use(match), 3u);
  kv.release(second);
  EXPECT_EQ(kv.n_in_use(match), 0u);
  EXPECT_EQ(kv.take_prefix(found, count_up(9), ""), 8u);
  EXPECT_EQ(kv.n_in_use(match), 2u);
  const uint32_t n_available = kv.n_available();
  EXPECT_EQ(kv.take_prefix(second, tokens, ""), 12u);
  EXPECT_EQ(kv.n_available(), n_available - 1);
}

TEST(BlockManagerTest, AForkAtABlockBorderCopiesNothing) {
  BlockManager kv({.n_blocks = 9, .block_size = 4});
  std::vector<bp_block_op> ops;
  BlockTable first;
  ASSERT_TRUE(kv.reserve(first, 0, 8, ops));
  BlockTable second = kv.fork(first, 8);
  ASSERT_TRUE(kv.reserve(first, 8, 9, ops));
  ASSERT_TRUE(kv.reserve(second, 8, 9, ops));
  EXPECT_THAT(ops, IsEmpty());
  EXPECT_NE(first.blocks[2], second.blocks[2]);
}

TEST(BlockManagerTest, CachedContentGivesWayToWork) {
  BlockManager kv({.n_blocks = 9, .block_size = 4});
  const auto tokens = count_up(20);
  std::vector<bp_block_op> ops;
  BlockTable table;
  ASSERT_TRUE(kv.reserve(table, 0, 20, ops));
  kv.register_full(table, tokens, 19, "");
  kv.release(table);
  EXPECT_EQ(kv.n_used(), 0u);
  EXPECT_EQ(kv.n_cached(), 4u);
  EXPECT_EQ(kv.find_prefix(tokens, ""), 16u);
  EXPECT_EQ(kv.find_prefix(count_up(16), ""), 12u);  // the last token is computed
  EXPECT_EQ(kv.find_prefix(tokens, "salt"), 0u);
  ASSERT_TRUE(kv.reserve(table, 0, 24, ops));  // 6 blocks, 4 are free
  EXPECT_EQ(kv.n_cached(), 2u);
  EXPECT_EQ(kv.find_prefix(tokens, ""), 8u);  // the ends of prefixes went first
}

TEST(BlockManagerTest, DiscardedContentIsNotFound) {
  BlockManager kv({.n_blocks = 9, .block_size = 4});
  const auto tokens = count_up(20);
  std::vector<bp_block_op> ops;
  BlockTable table;
  ASSERT_TRUE(kv.reserve(table, 0, 20, ops));
  kv.register_full(table, tokens, 12, "");
  kv.discard(table);
  EXPECT_EQ(kv.find_prefix(tokens, ""), 0u);
  EXPECT_EQ(kv.n_available(), 8u);
}

// Sequences of random prompts come, share, fork, grow and go; the books always balance.
TEST(BlockManagerTest, RandomTrafficStaysConsistent) {
  struct Live {
    BlockTable table;
    std::vector<int32_t> tokens;
    uint32_t n_computed = 0;
  };
  std::mt19937 random(3);
  BlockManager kv({.n_blocks = 40, .block_size = 4});
  std::vector<std::unique_ptr<Live>> live;
  std::vector<bp_block_op> ops;
  for (int step = 0; step < 5000; ++step) {
    const auto action = random() % 8;
    if (action < 2) {
      auto s = std::make_unique<Live>();
      s->tokens =
          count_up(static_cast<int32_t>(1 + random() % 40), static_cast<int32_t>(random() % 3));
      s->n_computed = kv.take_prefix(s->table, s->tokens, "");
      live.push_back(std::move(s));
    } else if (!live.empty()) {
      const size_t i = random() % live.size();
      Live& s = *live[i];
      if (action < 6) {
        if (s.n_computed == s.tokens.size()) s.tokens.push_back(static_cast<int32_t>(random() % 2));
        const auto end =
            s.n_computed + 1 + static_cast<uint32_t>(random() % (s.tokens.size() - s.n_computed));
        if (kv.reserve(s.table, s.n_computed, end, ops)) s.n_computed = end;
        kv.register_full(s.table, s.tokens, s.n_computed, "");
      } else if (action == 6 && s.n_computed > 0) {
        auto fork = std::make_unique<Live>();
        fork->table = kv.fork(s.table, s.n_computed);
        fork->tokens = s.tokens;
        fork->n_computed = s.n_computed;
        live.push_back(std::move(fork));
      } else {
        random() % 8 == 0 ? kv.discard(s.table) : kv.release(s.table);
        live.erase(live.begin() + static_cast<ptrdiff_t>(i));
      }
    }
    std::vector<const BlockTable*> tables;
    for (const auto& s : live) tables.push_back(&s->table);
    ASSERT_TRUE(kv.consistent(tables)) << step;
  }
  for (const auto& s : live) kv.release(s->table);
  EXPECT_EQ(kv.n_used(), 0u);
}

}  // namespace
}  // namespace bp::kv
