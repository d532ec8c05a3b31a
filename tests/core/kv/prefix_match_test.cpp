// A match brought up to date says what a whole lookup says, and the version when it must be.

#include <gtest/gtest.h>

#include <random>

#include "core/kv/block_manager.hpp"
#include "core/kv/prefix_cache.hpp"

namespace bp::kv {
namespace {

uint64_t collide(const BlockContent&) {
  return 7;
}

// Blocks of one token each.
class PrefixMatchTest : public ::testing::TestWithParam<ContentHash> {
 protected:
  PrefixCache cache{64, GetParam()};
  PrefixMatch match;
  const std::vector<int32_t> tokens{1, 2, 3, 4};

  size_t update() {
    cache.update(match, tokens, 1, "");
    return match.n_blocks();
  }
  PrefixNode insert(PrefixNode parent, const int32_t& token, BlockId block) {
    return cache.insert({parent, "", std::span(&token, 1)}, block);
  }
  PrefixNode insert_chain(int32_t n) {
    PrefixNode node = kEmptyPrefix;
    for (int32_t i = 0; i < n; ++i) node = insert(node, tokens[static_cast<size_t>(i)], i + 1);
    return node;
  }
};

TEST_P(PrefixMatchTest, GrowsAndShrinksAtItsEnd) {
  EXPECT_EQ(update(), 0u);
  const PrefixNode third = insert_chain(3);
  EXPECT_EQ(update(), 3u);
  insert(third, 4, 4);
  EXPECT_EQ(update(), 4u);
  cache.remove(4);
  cache.remove(3);
  EXPECT_EQ(update(), 2u);
}

TEST_P(PrefixMatchTest, EndsBeforeWhatIsMissingInItsMiddle) {
  insert_chain(4);
  ASSERT_EQ(update(), 4u);
  cache.remove(2);
  EXPECT_EQ(update(), 1u);
}

TEST_P(PrefixMatchTest, WhatStoodBehindAForgottenNodeDoesNotComeBack) {
  const PrefixNode fourth = insert_chain(4);
  ASSERT_EQ(update(), 4u);
  cache.remove(1);
  const PrefixNode first = insert(kEmptyPrefix, 1, 11);
  EXPECT_EQ(update(), 1u);
  insert(fourth, 5, 5);  // by a sequence that still holds those blocks
  insert(first, 2, 12);
  EXPECT_EQ(update(), 2u);
}

TEST_P(PrefixMatchTest, ABlockWithOtherContentIsNotTakenForTheOldOne) {
  insert_chain(2);
  ASSERT_EQ(update(), 2u);
  cache.remove(2);
  insert({1, 1}, 9, 2);
  EXPECT_EQ(update(), 1u);
}

TEST_P(PrefixMatchTest, AClearedMatchServesOtherTokens) {
  insert_chain(4);
  ASSERT_EQ(update(), 4u);
  match.clear();
  cache.update(match, std::vector<int32_t>{1, 2, 9}, 1, "");
  EXPECT_EQ(match.n_blocks(), 2u);
  match.clear();
  cache.update(match, tokens, 1, "salt");
  EXPECT_EQ(match.n_blocks(), 0u);
}

INSTANTIATE_TEST_SUITE_P(Hashes, PrefixMatchTest, ::testing::Values(&hash_content, &collide));

TEST(PrefixVersionTest, StaysWhenOnlyOthersContentChanges) {
  PrefixCache cache(64);
  const std::vector<int32_t> tokens{1, 2, 3}, others{7, 8, 9};
  const auto block = [](const std::vector<int32_t>& t, size_t i) {
    return std::span(t).subspan(i, 1);
  };
  const PrefixNode first = cache.insert({kEmptyPrefix, "", block(tokens, 0)}, 1);
  PrefixMatch match;
  cache.update(match, tokens, 1, "");
  const uint64_t version = cache.version();
  const PrefixNode other = cache.insert({kEmptyPrefix, "", block(others, 0)}, 2);
  cache.insert({other, "", block(others, 1)}, 3);
  cache.insert({first, "", block(others, 1)}, 4);
  cache.remove(2);
  EXPECT_EQ(cache.version(), version);
  cache.insert({first, "", block(tokens, 1)}, 5);
  EXPECT_NE(cache.version(), version);
}

TEST(PrefixVersionTest, ChangesWhenANodeBeforeTheLastIsForgotten) {
  PrefixCache cache(64);
  const std::vector<int32_t> tokens{1, 2, 3};
  PrefixNode node = kEmptyPrefix;
  for (const size_t i : {0, 1, 2}) {
    node = cache.insert({node, "", std::span(tokens).subspan(i, 1)}, static_cast<BlockId>(i) + 1);
  }
  PrefixMatch match;
  cache.update(match, tokens, 1, "");
  const uint64_t version = cache.version();
  cache.remove(1);
  EXPECT_NE(cache.version(), version);
}

struct Traffic {
  struct Running {
    std::vector<int32_t> tokens;
    std::string salt;
    BlockTable table;
    uint32_t n_computed = 0;
  };
  struct Waiting {
    std::vector<int32_t> tokens;
    std::string salt;
    PrefixMatch match;
    uint32_t answer = 0;
    uint64_t version = 0;  // at which it was asked
  };

  std::mt19937 random;
  BlockManager kv;
  std::vector<Running> running;
  std::vector<Waiting> waiting;
  std::vector<bp_block_op> ops;
  uint32_t n_extended = 0, n_shrunk = 0, n_skipped = 0;

  Traffic(uint32_t seed, uint32_t block_size)
      : random(seed), kv({.n_blocks = 48, .block_size = block_size}) {}

  uint32_t below(size_t n) { return static_cast<uint32_t>(random() % n); }

  // Few different tokens, so that prefixes are shared and branch anywhere.
  std::vector<int32_t> make_tokens() {
    std::vector<int32_t> tokens(1 + below(14) * kv.block_size() + below(kv.block_size()));
    for (int32_t& t : tokens) t = below(12) == 0 ? 1 : 0;
    return tokens;
  }
  std::string make_salt() { return below(4) == 0 ? "other" : ""; }

  void arrive() {
    if (waiting.size() == 24) waiting.erase(waiting.begin() + below(waiting.size()));
    waiting.push_back({make_tokens(), make_salt(), {}, 0, 0});
  }
  void start() {
    Running r{make_tokens(), make_salt(), {}, 0};
    r.n_computed = kv.take_prefix(r.table, r.tokens, r.salt);
    running.push_back(std::move(r));
  }
  void compute(Running& r) {
    const auto n = static_cast<uint32_t>(r.tokens.size());
    const uint32_t end = std::min(n, r.n_computed + 1 + below(3 * kv.block_size()));
    if (end == r.n_computed || !kv.reserve(r.table, r.n_computed, end, ops)) return;
    r.n_computed = end;
    kv.register_full(r.table, r.tokens, end, r.salt);
  }
  void fork(const Running& r) {
    Running forked{r.tokens, r.salt, kv.fork(r.table, r.n_computed), r.n_computed};
    for (uint32_t i = r.n_computed; i < forked.tokens.size(); ++i) forked.tokens[i] ^= 1;
    running.push_back(std::move(forked));
  }
  void end(size_t i) {
    below(6) == 0 ? kv.discard(running[i].table) : kv.release(running[i].table);
    running.erase(running.begin() + static_cast<ptrdiff_t>(i));
  }
  void act() {
    const uint32_t action = below(10);
    if (action == 0) arrive();
    if (action == 1) start();
    if (action < 2 || running.empty()) return;
    const uint32_t i = below(running.size());
    if (action < 7) return compute(running[i]);
    action == 7 && running.size() < 12 ? fork(Running(running[i])) : end(i);
  }

  // Some are asked for the first time in a while, as when the engine has no room to start any.
  void check() {
    for (Waiting& w : waiting) {
      const uint32_t whole = kv.find_prefix(w.tokens, w.salt);
      if (w.version == kv.prefix_version()) {
        ASSERT_EQ(w.answer, whole);
        ++n_skipped;
      }
      if (below(3) == 0) continue;
      const uint32_t before = w.answer;
      w.answer = kv.find_prefix(w.match, w.tokens, w.salt);
      w.version = kv.prefix_version();
      ASSERT_EQ(w.answer, whole);
      n_extended += w.answer > before && before > 0 ? 1 : 0;
      n_shrunk += w.answer < before && w.answer > 0 ? 1 : 0;
    }
  }
};

TEST(PrefixTrafficTest, MatchesSayWhatWholeLookupsSay) {
  Traffic total(0, 1);
  for (const uint32_t block_size : {1u, 4u}) {
    for (uint32_t seed = 1; seed <= 4; ++seed) {
      Traffic traffic(seed, block_size);
      for (int step = 0; step < 4000; ++step) {
        traffic.act();
        ASSERT_NO_FATAL_FAILURE(traffic.check()) << "seed " << seed << ", step " << step;
      }
      total.n_extended += traffic.n_extended;
      total.n_shrunk += traffic.n_shrunk;
      total.n_skipped += traffic.n_skipped;
    }
  }
  EXPECT_GT(total.n_extended, 1000u);
  EXPECT_GT(total.n_shrunk, 200u);
  EXPECT_GT(total.n_skipped, 10000u);
}

}  // namespace
}  // namespace bp::kv
