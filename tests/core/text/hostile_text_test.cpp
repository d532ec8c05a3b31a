#include <gtest/gtest.h>

#include <chrono>

#include "tests/core/text/small_vocabulary.hpp"

namespace bp::text {
namespace {

using testing::byte_vocabulary;
using testing::make_tokenizer;
using testing::sentencepiece_vocabulary;

std::string repeat(std::string_view unit, size_t bytes) {
  std::string text;
  while (text.size() < bytes) text += unit;
  return text;
}

std::vector<std::string> hostile_texts(size_t n) {
  std::vector<std::string> texts;
  for (const std::string_view unit :
       {"a", " ", "\n", "\r\n", " \n", "\t ", "7", "'", "<", "<|im_en", "\xCC\x81", "\xE4\xB8\xAD",
        "\xFF", "\xF0\x9F", "ab", "aab ", "!?", "a\xCC\x81", "A", "aA",
        // Families of emoji, syllables of Hangul, Thai.
        "\xF0\x9F\x91\xA8\xE2\x80\x8D\xF0\x9F\x91\xA9\xE2\x80\x8D", "\xE1\x84\x80\xE1\x85\xA1",
        "\xE0\xB8\x81\xE0\xB9\x88"}) {
    texts.push_back(repeat(unit, n));
  }
  texts.push_back(std::string(n, '\0'));
  return texts;
}

// A quadratic step over these texts takes minutes; the bound leaves room for sanitizers.
void expect_fast(const Tokenizer& tokenizer, size_t n = 300'000, bool may_be_empty = false) {
  for (const std::string& text : hostile_texts(n)) {
    const auto start = std::chrono::steady_clock::now();
    const auto ids = tokenizer.encode(text);
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    EXPECT_LT(elapsed.count(), 10) << text.substr(0, 8);
    EXPECT_TRUE(may_be_empty || !ids.empty());
  }
}

TEST(HostileText, ByteBpe) {
  const std::vector<std::string> merges = {"a a", "aa aa", "Ġ Ġ", "ĠĠ ĠĠ", "Ċ Ċ", "' '", "7 7"};
  for (const char* pre : testing::kPreTokenizerKinds) {
    expect_fast(*make_tokenizer(byte_vocabulary(merges, pre)), 100'000);
  }
}

TEST(HostileText, SentencePiece) {
  const std::vector<std::string> pieces = {"aaaa", "aa", "▁▁", "▁▁▁▁", "a", "▁", "a▁", "ab"};
  expect_fast(*make_tokenizer(sentencepiece_vocabulary(pieces)));
}

TEST(HostileText, CharacterBpe) {
  for (const char* pre : {"gemma4", "sarvam-moe", "granite-embed-multi-311m", "whitespace"}) {
    Vocabulary v;
    v.model = "gpt2";
    v.pre = pre;
    for (const char* text : {"a", "aa", "aaaa", "▁", "▁▁", "▁▁▁▁", "a▁", "b"}) {
      testing::add_token(v, text);
    }
    testing::add_token(v, "<unk>", TokenType::kUnknown);
    v.unk = v.n_tokens() - 1;
    v.merges = {"a a", "aa aa", "▁ ▁", "▁▁ ▁▁", "a ▁"};
    expect_fast(*make_tokenizer(v), 100'000, /*may_be_empty=*/true);
  }
}

TEST(HostileText, Unigram) {
  for (const bool words_are_apart : {true, false}) {
    Vocabulary v;
    v.model = "t5";
    testing::add_token(v, "<unk>", TokenType::kUnknown);
    for (const char* text : {"a", "aa", "▁", "▁a", "b"}) testing::add_token(v, text);
    if (!words_are_apart) testing::add_token(v, "a▁a");
    for (int id = 0; id < v.n_tokens(); ++id) v.scores.push_back(-static_cast<float>(id));
    v.unk = 0;
    v.add_space_prefix = true;
    expect_fast(*make_tokenizer(v));
  }
}

TEST(HostileText, WordPiece) {
  Vocabulary v;
  v.model = "bert";
  testing::add_token(v, "[UNK]", TokenType::kUnknown);
  testing::add_token(v, "[CLS]", TokenType::kControl);
  testing::add_token(v, "▁a");
  testing::add_token(v, "a");
  v.unk = 0;
  v.bos = 1;
  v.add_bos = true;
  expect_fast(*make_tokenizer(v));
}

}  // namespace
}  // namespace bp::text
