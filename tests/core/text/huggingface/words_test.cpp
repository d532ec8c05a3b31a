// What spares words their work changes no id: the cache of words, and the trie of pieces.

#include <algorithm>
#include <map>
#include <random>

#include "core/text/byte_trie.hpp"
#include "fixture.hpp"

namespace bp::text {
namespace {

using testing::bpe;
using testing::Json;
using testing::make;

constexpr const char* kMark = "\u2581";
const std::vector<std::string> kRuns = {"a", "aa", "aaaa", "aaaaaaaa", "b", "bc", "c"};

// Distinct words of up to 34 bytes, some of few long tokens; no token has an `x`.
std::vector<std::string> many_words() {
  std::mt19937 random(7);
  std::vector<std::string> words;
  while (words.size() < 200) {
    const size_t size = 1 + random() % 34;
    const bool has_runs = random() % 2 == 0, has_unknown = random() % 8 == 0;
    std::string word;
    while (word.size() < size) {
      if (has_runs) word += "aaaaaaaa";
      word += "abcx"[random() % (has_unknown ? 4 : 3)];
    }
    word.resize(size);
    if (std::ranges::find(words, word) == words.end()) words.push_back(word);
  }
  return words;
}

Json unigram_of_runs() {
  Json pairs = Json::array({Json::array({"<unk>", 0.0}), Json::array({kMark, -2.0})});
  for (const std::string& run : kRuns) {
    pairs.push_back(Json::array({run, -3.0 - 0.1 * static_cast<double>(run.size())}));
  }
  return {{"type", "Unigram"}, {"unk_id", 0}, {"vocab", pairs}};
}

Json wordpiece_of_runs() {
  std::vector<std::string> texts = kRuns;
  for (const std::string& run : kRuns) texts.push_back("##" + run);
  return testing::words(texts);
}

// Words in an order that is another one each time, as one text and each alone.
void expect_the_ids_of_single_words(const Json& json, size_t mark_bytes) {
  const auto tokenizer = make(json);
  ASSERT_NE(tokenizer, nullptr);
  std::vector<std::string> words = many_words();
  std::map<std::string, std::vector<int32_t>> alone;
  std::map<size_t, int> n_of_ids, n_of_bytes;  // the latter of words with few ids
  for (const std::string& word : words) {
    const auto& ids = alone[word] = tokenizer->encode(word, {.add_special = false});
    ++n_of_ids[ids.size()];
    if (ids.size() <= 8) ++n_of_bytes[mark_bytes + word.size()];
  }
  EXPECT_TRUE(n_of_ids[8] > 0 && n_of_ids[9] > 0) << "around the most ids that are kept";
  EXPECT_TRUE(n_of_bytes[30] > 0 && n_of_bytes[31] > 0) << "around the longest words";
  std::mt19937 random(3);
  std::string text;
  std::vector<int32_t> expected;
  for (int round = 0; round < 4; ++round) {
    std::ranges::shuffle(words, random);
    for (const std::string& word : words) {
      text += (text.empty() ? "" : " ") + word;
      expected.insert(expected.end(), alone[word].begin(), alone[word].end());
    }
  }
  ASSERT_GT(text.size(), 4096u);
  EXPECT_EQ(tokenizer->encode(text, {.add_special = false}), expected);
}

Json with_marks(Json model, bool splits) {
  return {{"model", std::move(model)},
          {"pre_tokenizer",
           {{"type", "Metaspace"},
            {"replacement", kMark},
            {"prepend_scheme", "first"},
            {"split", splits}}}};
}

TEST(WordCache, UnigramWordsHaveTheirOwnIds) {
  expect_the_ids_of_single_words(with_marks(unigram_of_runs(), true), 3);
  expect_the_ids_of_single_words(with_marks(unigram_of_runs(), false), 3);
}

TEST(WordCache, BpeWordsHaveTheirOwnIds) {
  const Json model =
      bpe({kMark, "a", "b", "c"}, {"a a", "aa aa", "aaaa aaaa", "b c", kMark + std::string(" a")});
  expect_the_ids_of_single_words(with_marks(model, true), 3);
  expect_the_ids_of_single_words(with_marks(model, false), 3);
}

TEST(WordCache, WordPieceWordsHaveTheirOwnIds) {
  expect_the_ids_of_single_words(
      {{"model", wordpiece_of_runs()}, {"pre_tokenizer", {{"type", "Whitespace"}}}}, 0);
}

TEST(ByteTrie, FindsWhatASearchFinds) {
  std::mt19937 random(11);
  const auto make_text = [&](size_t most) {
    std::string text(random() % (most + 1), '\0');
    for (char& c : text) c = "ab\0\xFF"[random() % 4];
    return text;
  };
  std::vector<std::string> texts(400);
  for (std::string& text : texts) text = make_text(6);
  std::vector<ByteTrie::Entry> entries;
  std::map<std::string, int32_t> first_ids;
  for (size_t i = 0; i < texts.size(); ++i) {
    entries.emplace_back(texts[i], static_cast<int32_t>(i));
    if (!texts[i].empty()) first_ids.emplace(texts[i], static_cast<int32_t>(i));
  }
  ASSERT_LT(first_ids.size(), texts.size() - 1) << "some are equal";
  const ByteTrie trie(entries);
  using Found = std::vector<std::pair<size_t, int32_t>>;
  for (int i = 0; i < 2000; ++i) {
    const std::string text = make_text(9);
    Found expected, found;
    for (size_t size = 1; size <= text.size(); ++size) {
      const auto entry = first_ids.find(text.substr(0, size));
      if (entry != first_ids.end()) expected.emplace_back(size, entry->second);
    }
    trie.for_each_prefix(text, [&](size_t size, int32_t id) { found.emplace_back(size, id); });
    ASSERT_EQ(found, expected) << ::testing::PrintToString(text);
    ASSERT_EQ(trie.contains(text), first_ids.contains(text));
  }
}

TEST(ByteTrie, MayBeEmpty) {
  ByteTrie().for_each_prefix("a", [](size_t, int32_t) { ADD_FAILURE(); });
}

}  // namespace
}  // namespace bp::text
