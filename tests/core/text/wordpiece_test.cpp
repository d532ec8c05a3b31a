#include <gmock/gmock.h>

#include "tests/core/text/small_vocabulary.hpp"

namespace bp::text {
namespace {

using testing::add_token;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::make_tokenizer;
using testing::pieces_of;

Vocabulary bert_vocabulary() {
  Vocabulary v;
  v.model = "bert";
  for (const char* text : {"[UNK]", "[CLS]", "[SEP]"}) add_token(v, text, TokenType::kControl);
  for (const char* text : {"▁un", "▁unable", "▁a", "able", "d", "▁.", "▁中", "▁e"}) {
    add_token(v, text);
  }
  v.unk = 0;
  v.bos = v.cls = 1;
  v.sep = 2;
  v.add_bos = v.add_sep = true;
  return v;
}

TEST(WordPiece, LongestMatchFirst) {
  const auto t = make_tokenizer(bert_vocabulary());
  EXPECT_THAT(pieces_of(*t, "unable una unabled"), ElementsAre(" unable", "[UNK]", " unable", "d"));
}

TEST(WordPiece, NormalisesAndSplits) {
  const auto t = make_tokenizer(bert_vocabulary());
  EXPECT_THAT(pieces_of(*t, "Á.\tA中a\x01 e\xCC\x81 \xFF"),
              ElementsAre(" a", " .", " a", " 中", " a", " e"));
}

TEST(WordPiece, FramesWithClsAndSep) {
  const auto t = make_tokenizer(bert_vocabulary());
  EXPECT_THAT(t->encode("a"), ElementsAre(1, 5, 2));
  EXPECT_THAT(t->encode("a[SEP]a"), ElementsAre(1, 5, 2, 5, 2));
}

TEST(WordPiece, AWordOfOverAHundredCharactersIsUnknown) {
  const auto t = make_tokenizer(bert_vocabulary());
  EXPECT_THAT(pieces_of(*t, "a" + std::string(99, 'd')), ::testing::SizeIs(100));
  EXPECT_THAT(pieces_of(*t, "a" + std::string(100, 'd')), ElementsAre("[UNK]"));
}

TEST(WordPiece, DecodeDropsTheFirstSpace) {
  const auto t = make_tokenizer(bert_vocabulary());
  const auto ids = t->encode("unabled a.");
  EXPECT_EQ(t->decode(ids), "unabled a .");
}

TEST(WordPiece, NeedsAnUnknownToken) {
  Vocabulary v = bert_vocabulary();
  v.unk = kNoToken;
  EXPECT_THAT(Tokenizer::create(v).status().message(), HasSubstr("unknown_token_id"));
}

}  // namespace
}  // namespace bp::text
