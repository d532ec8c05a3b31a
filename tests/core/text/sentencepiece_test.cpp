#include <gmock/gmock.h>

#include <limits>

#include "tests/core/text/small_vocabulary.hpp"

namespace bp::text {
namespace {

using testing::add_token;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::make_tokenizer;
using testing::pieces_of;
using testing::sentencepiece_vocabulary;

const std::vector<std::string> kPieces = {"▁a", "bc", "▁▁", "ab", "▁", "a", "b", "c", "x"};

TEST(SentencePiece, MergesByScore) {
  const auto t = make_tokenizer(sentencepiece_vocabulary(kPieces));
  EXPECT_THAT(pieces_of(*t, "abc"), ElementsAre(" a", "bc"));
  EXPECT_THAT(pieces_of(*t, "xabc"), ElementsAre(" ", "x", "a", "bc"));
  EXPECT_THAT(pieces_of(*t, "x  a"), ElementsAre(" ", "x", " ", " a"));
}

// Cutting at spaces is allowed only where no token reaches over one.
TEST(SentencePiece, TokensAcrossSpacesAreFound) {
  auto pieces = kPieces;
  pieces.insert(pieces.begin(), {"a▁a", "a▁"});
  const auto t = make_tokenizer(sentencepiece_vocabulary(pieces));
  EXPECT_THAT(pieces_of(*t, "xa a"), ElementsAre(" ", "x", "a a"));
}

TEST(SentencePiece, FallsBackToBytes) {
  const auto t = make_tokenizer(sentencepiece_vocabulary(kPieces));
  EXPECT_THAT(t->encode("é", {.add_special = false}), ElementsAre(263, 3 + 0xC3, 3 + 0xA9));
  EXPECT_THAT(t->encode("\xFF\xE2\x82", {.add_special = false}),
              ElementsAre(263, 3 + 0xFF, 3 + 0xE2, 3 + 0x82));
}

TEST(SentencePiece, WithoutByteTokensUnknownCharactersAreUnknown) {
  Vocabulary v = sentencepiece_vocabulary(kPieces);
  for (TokenType& type : v.types) {
    if (type == TokenType::kByte) type = TokenType::kUnused;
  }
  EXPECT_THAT(make_tokenizer(v)->encode("az", {.add_special = false}), ElementsAre(259, 0));
}

TEST(SentencePiece, SpaceBeforeTheTextAndBehindSpecialTokens) {
  Vocabulary v = sentencepiece_vocabulary(kPieces);
  EXPECT_THAT(pieces_of(*make_tokenizer(v), "a</s>a"), ElementsAre(" a", "</s>", " a"));
  EXPECT_THAT(make_tokenizer(v)->encode(""), ElementsAre(1));
  v.add_space_prefix = false;
  EXPECT_THAT(pieces_of(*make_tokenizer(v), "a</s>a"), ElementsAre("a", "</s>", "a"));
}

TEST(SentencePiece, ExtraWhitespaceGoesWhereTheModelSaysSo) {
  Vocabulary v = sentencepiece_vocabulary(kPieces);
  v.remove_extra_whitespaces = true;
  EXPECT_THAT(pieces_of(*make_tokenizer(v), "  x   a "), ElementsAre(" ", "x", " a"));
}

TEST(SentencePiece, RoundTrip) {
  const auto t = make_tokenizer(sentencepiece_vocabulary(kPieces));
  for (const char* text : {"abc", " abc ", "  ", "naïve 日本 \t\n", "a</s> b<s>c"}) {
    const auto ids = t->encode(text);
    EXPECT_EQ(t->decode(std::span(ids).subspan(1), {.special = true}), text);
  }
}

TEST(SentencePiece, ScoresAreNeeded) {
  Vocabulary v = sentencepiece_vocabulary(kPieces);
  v.scores.clear();
  EXPECT_THAT(Tokenizer::create(v).status().message(), HasSubstr("tokenizer.ggml.scores"));
  v = sentencepiece_vocabulary(kPieces);
  v.scores[5] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(Tokenizer::create(v).status().message(), HasSubstr("tokenizer.ggml.scores[5]"));
}

}  // namespace
}  // namespace bp::text
