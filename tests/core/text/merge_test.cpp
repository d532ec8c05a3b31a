#include "core/text/merge.hpp"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <string>
#include <vector>

#include "core/text/text_index.hpp"

namespace bp::text {
namespace {

// Both ways of merging must agree, since the length of a piece alone chooses between them.
void expect_agreement(const std::string& text, const TextIndex& index,
                      const std::vector<uint32_t>& ranks) {
  const auto merge_of = [&](const Symbol& left, const Symbol& right) -> PairMerge {
    const int32_t id =
        index.find(std::string_view(text).substr(left.begin, left.size + right.size));
    if (id == kNoToken) return {};
    return {ranks[static_cast<size_t>(id)], id};
  };
  MergeScratch scan;
  for (uint32_t i = 0; i < text.size(); ++i) {
    scan.symbols.push_back({i, 1, index.find(std::string_view(text).substr(i, 1))});
  }
  MergeScratch queue = scan;
  merge_detail::merge_by_scan(scan, merge_of);
  merge_detail::QueueMerger(queue, merge_of).run();
  ASSERT_EQ(scan.symbols.size(), queue.symbols.size()) << text;
  for (size_t i = 0; i < scan.symbols.size(); ++i) {
    EXPECT_EQ(scan.symbols[i].id, queue.symbols[i].id) << text;
    EXPECT_EQ(scan.symbols[i].begin, queue.symbols[i].begin) << text;
  }
}

std::string random_letters(std::mt19937& random, size_t n, unsigned n_letters) {
  std::string text(n, ' ');
  for (char& c : text) c = static_cast<char>('a' + random() % n_letters);
  return text;
}

TEST(Merge, ScanAndQueueAgree) {
  const TextList tokens = {"a",  "b",   "c",    "ab",   "ba",  "aa",  "aab",
                           "bb", "abc", "abab", "aaaa", "cab", "bcab"};
  // Equal ranks test that the leftmost goes first.
  const std::vector<uint32_t> ranks = {0, 0, 0, 5, 7, 5, 9, 7, 1, 11, 12, 4, 6};
  TextIndex index(tokens);
  for (size_t i = 0; i < tokens.size(); ++i) index.insert(static_cast<int32_t>(i));
  std::mt19937 random(1);
  for (int round = 0; round < 2000; ++round) {
    expect_agreement(random_letters(random, 1 + random() % 60, 3), index, ranks);
  }
}

// More ranks than a queue has places for at first, in any order, so that candidates come late.
TEST(Merge, ScanAndQueueAgreeOnManyRanks) {
  constexpr unsigned kLetters = 6;
  std::mt19937 random(2);
  TextList tokens;
  std::set<std::string> known;
  for (char c = 'a'; c < static_cast<char>('a' + kLetters); ++c) known.insert(std::string(1, c));
  while (known.size() < 700) known.insert(random_letters(random, 2 + random() % 5, kLetters));
  std::vector<uint32_t> ranks;
  for (const std::string& token : known) {
    tokens.push_back(token);
    ranks.push_back(static_cast<uint32_t>(random() % 400) * 7919);
  }
  TextIndex index(tokens);
  for (size_t i = 0; i < tokens.size(); ++i) index.insert(static_cast<int32_t>(i));
  for (int round = 0; round < 60; ++round) {
    std::string text = random_letters(random, 1 + random() % 1500, 1 + random() % kLetters);
    if (round % 3 == 0) text += text + text;
    expect_agreement(text, index, ranks);
  }
}

TEST(TextIndex, KeepsTheFirstOfEqualTexts) {
  const TextList texts = {"two", "one", "one", ""};
  TextIndex index(texts);
  for (const int32_t id : {1, 2, 3}) index.insert(id);
  EXPECT_EQ(index.find("one"), 1);
  EXPECT_EQ(index.find("two"), kNoToken);
  EXPECT_EQ(index.find(""), kNoToken);
  EXPECT_EQ(index.find("on"), kNoToken);
  EXPECT_EQ(index.find("a longer text"), kNoToken);
}

}  // namespace
}  // namespace bp::text
