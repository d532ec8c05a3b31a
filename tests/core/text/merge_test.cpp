#include "core/text/merge.hpp"

#include <gtest/gtest.h>

#include <random>

#include "core/text/text_index.hpp"

namespace bp::text {
namespace {

// Both ways of merging must agree, since the length of a piece alone chooses between them.
TEST(Merge, ScanAndHeapAgree) {
  const TextList tokens = {"a",  "b",   "c",    "ab",   "ba",  "aa",  "aab",
                           "bb", "abc", "abab", "aaaa", "cab", "bcab"};
  // Equal ranks test that the leftmost goes first.
  const std::vector<uint32_t> ranks = {0, 0, 0, 5, 7, 5, 9, 7, 1, 11, 12, 4, 6};
  TextIndex index(tokens);
  for (size_t i = 0; i < tokens.size(); ++i) index.insert(static_cast<int32_t>(i));

  std::mt19937 random(1);
  for (int round = 0; round < 2000; ++round) {
    std::string text(1 + random() % 60, ' ');
    for (char& c : text) c = static_cast<char>('a' + random() % 3);
    const auto merge_of = [&](const Symbol& left, const Symbol& right) -> PairMerge {
      const int32_t id =
          index.find(std::string_view(text).substr(left.begin, left.size + right.size));
      if (id == kNoToken) return {};
      return {ranks[static_cast<size_t>(id)], id};
    };
    MergeScratch scan;
    for (uint32_t i = 0; i < text.size(); ++i) scan.symbols.push_back({i, 1, text[i] - 'a'});
    MergeScratch heap = scan;
    merge_detail::merge_by_scan(scan, merge_of);
    merge_detail::HeapMerger(heap, merge_of).run();
    ASSERT_EQ(scan.symbols.size(), heap.symbols.size()) << text;
    for (size_t i = 0; i < scan.symbols.size(); ++i) {
      EXPECT_EQ(scan.symbols[i].id, heap.symbols[i].id) << text;
      EXPECT_EQ(scan.symbols[i].begin, heap.symbols[i].begin) << text;
    }
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
