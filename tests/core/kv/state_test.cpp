// State entries of sequences: whose they are, and what reserve and fork do with them.

#include <gtest/gtest.h>

#include "core/kv/block_manager.hpp"

namespace bp::kv {
namespace {

class StateEntries : public ::testing::Test {
 protected:
  bool reserve(BlockTable& table, uint32_t n_computed, uint32_t n_tokens) {
    std::vector<bp_block_op> ops;
    return kv_.reserve(table, n_computed, n_tokens, ops);
  }
  // One step of a sequence.
  void compute(BlockTable& table, uint32_t n_computed, uint32_t n_tokens) {
    ASSERT_TRUE(reserve(table, n_computed, n_tokens));
    kv_.advance_state(table);
  }

  BlockManager kv_{{.n_blocks = 33, .block_size = 4, .n_state_entries = 4}};
};

TEST_F(StateEntries, BeginWithZerosAndGoOnInPlace) {
  BlockTable table;
  ASSERT_TRUE(reserve(table, 0, 3));
  EXPECT_EQ(table.state, kZeroState);
  EXPECT_NE(table.next_state, kZeroState);
  kv_.advance_state(table);
  const StateEntry own = table.state;
  EXPECT_NE(own, kZeroState);
  ASSERT_TRUE(reserve(table, 3, 9));
  EXPECT_EQ(table.next_state, own);
  kv_.advance_state(table);
  EXPECT_EQ(table.state, own);
  const BlockTable* all[] = {&table};
  EXPECT_TRUE(kv_.consistent(all));
  kv_.release(table);
  EXPECT_TRUE(kv_.consistent({}));
}

TEST_F(StateEntries, AreLeftWhileForksHoldThem) {
  BlockTable first;
  compute(first, 0, 6);
  const StateEntry prompt = first.state;
  BlockTable second = kv_.fork(first, 6);
  EXPECT_EQ(second.state, prompt);
  ASSERT_TRUE(reserve(first, 6, 7));
  EXPECT_NE(first.next_state, prompt);
  // The prompt's is read by the first until its step is done.
  ASSERT_TRUE(reserve(second, 6, 7));
  EXPECT_NE(second.next_state, prompt);
  EXPECT_NE(second.next_state, first.next_state);
  const BlockTable* all[] = {&first, &second};
  EXPECT_TRUE(kv_.consistent(all));
  kv_.advance_state(first);
  kv_.advance_state(second);
  EXPECT_TRUE(kv_.consistent(all));
  BlockTable third;
  compute(third, 0, 1);
  EXPECT_EQ(third.state, prompt);
}

TEST_F(StateEntries, RunOut) {
  BlockTable tables[4];
  for (int i = 0; i < 3; ++i) compute(tables[i], 0, 4);
  EXPECT_TRUE(kv_.lacks_state(tables[3]));
  EXPECT_FALSE(reserve(tables[3], 0, 4));
  EXPECT_TRUE(tables[3].blocks.empty());
  EXPECT_FALSE(kv_.lacks_state(tables[0]));
  compute(tables[0], 4, 5);
  tables[3] = kv_.fork(tables[0], 5);
  EXPECT_TRUE(kv_.lacks_state(tables[3]));
  kv_.discard(tables[1]);
  EXPECT_FALSE(kv_.lacks_state(tables[3]));
  const BlockTable* all[] = {&tables[0], &tables[2], &tables[3]};
  EXPECT_TRUE(kv_.consistent(all));
}

TEST_F(StateEntries, OfAStepThatWasNotTakenComeBack) {
  BlockTable first;
  compute(first, 0, 4);
  BlockTable second = kv_.fork(first, 4);
  ASSERT_TRUE(reserve(second, 4, 5));
  kv_.release(second);
  const BlockTable* all[] = {&first};
  EXPECT_TRUE(kv_.consistent(all));
}

TEST_F(StateEntries, LeaveNoPrefixCache) {
  BlockTable table;
  const std::vector<int32_t> tokens(9, 7);
  compute(table, 0, 9);
  kv_.register_full(table, tokens, 9, "");
  EXPECT_EQ(kv_.find_prefix(tokens, ""), 0u);
}

}  // namespace
}  // namespace bp::kv
