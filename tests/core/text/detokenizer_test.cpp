#include "core/text/detokenizer.hpp"

#include <gmock/gmock.h>

#include <random>

#include "core/text/jinja/text_ops.hpp"
#include "tests/core/text/small_vocabulary.hpp"

namespace bp::text {
namespace {

using jinja::is_valid_utf8;
using testing::byte_vocabulary;
using testing::make_tokenizer;
using testing::sentencepiece_vocabulary;

TEST(Detokenizer, HoldsACharacterBackUntilItIsWhole) {
  const auto t = make_tokenizer(byte_vocabulary({}));
  Detokenizer stream(*t);
  EXPECT_EQ(stream.append('a'), "a");
  EXPECT_EQ(stream.append(0xF0), "");
  EXPECT_EQ(stream.append(0x9F), "");
  EXPECT_TRUE(stream.has_incomplete_character());
  EXPECT_EQ(stream.append(0x98), "");
  EXPECT_EQ(stream.append(0x81), "😁");
  EXPECT_FALSE(stream.has_incomplete_character());
  EXPECT_EQ(stream.flush(), "");
}

TEST(Detokenizer, ReplacesBytesAsSoonAsTheyCannotBecomeACharacter) {
  const auto t = make_tokenizer(byte_vocabulary({}));
  Detokenizer stream(*t);
  EXPECT_EQ(stream.append(0xFF), "\uFFFD");
  EXPECT_EQ(stream.append(0xE2), "");
  EXPECT_EQ(stream.append('x'), "\uFFFDx");
  EXPECT_EQ(stream.append(0xED), "");
  EXPECT_EQ(stream.append(0xA0), "\uFFFD\uFFFD");
  EXPECT_EQ(stream.append(0xC3), "");
  EXPECT_EQ(stream.flush(), "\uFFFD");
  EXPECT_EQ(stream.flush(), "");
}

TEST(Detokenizer, ShowsSingleControlTokensWhenTold) {
  const auto t = make_tokenizer(byte_vocabulary({}));
  Detokenizer stream(*t);
  std::string text;
  stream.append(256, text);
  stream.append(256, text, /*show=*/true);
  stream.append('a', text);
  stream.append(257, text);
  EXPECT_EQ(text, "<|start|>a");
}

// Metamorphic: however random bytes are cut into tokens, every piece of text is valid UTF-8 and
// their sum is the decoding of the whole.
TEST(Detokenizer, StreamedTextIsTheWholeTextInValidPieces) {
  const auto t = make_tokenizer(byte_vocabulary({"Ã ©", "© Ã"}));
  std::mt19937 random(3);
  const std::string alphabet = "a \xF0\x9F\x98\x81\xC3\xA9\xE2\x82\xAC\xED\xA0\x80\xFF";
  for (int round = 0; round < 500; ++round) {
    std::string text;
    for (size_t n = random() % 40; n > 0; --n) text += alphabet[random() % alphabet.size()];
    const auto ids = t->encode(text, {false, false});
    Detokenizer stream(*t);
    std::string streamed;
    for (const int32_t id : ids) {
      const std::string piece = stream.append(id);
      EXPECT_TRUE(is_valid_utf8(piece));
      streamed += piece;
    }
    streamed += stream.flush();
    EXPECT_TRUE(is_valid_utf8(streamed));
    EXPECT_EQ(streamed, t->decode(ids));
    if (is_valid_utf8(text)) {
      EXPECT_EQ(streamed, text);
    }
  }
}

TEST(Detokenizer, ControlTokensAreRenderedOnlyOnRequest) {
  Vocabulary v = byte_vocabulary({});
  const auto t = make_tokenizer(v);
  const auto ids = t->encode("a<|im_end|><user>b");
  EXPECT_EQ(t->decode(ids), "a<user>b");
  EXPECT_EQ(t->decode(ids, {.special = true}), "a<|im_end|><user>b");
}

TEST(Detokenizer, IdsOutsideTheVocabularyAreNoText) {
  const auto t = make_tokenizer(byte_vocabulary({}));
  const std::vector<int32_t> ids = {-1, 'a', 1'000'000, 'b'};
  EXPECT_EQ(t->decode(ids, {.special = true}), "ab");
}

TEST(Detokenizer, LeadingSpaceGoesOnlyWhereTheTextBegins) {
  const auto t = make_tokenizer(sentencepiece_vocabulary({"▁a", "▁", "a"}));
  const std::vector<int32_t> ids = {1, 259, 259};
  EXPECT_EQ(t->decode(ids), "a a");
  EXPECT_EQ(t->decode(ids, {.at_start = false}), " a a");
  EXPECT_EQ(t->decode(ids, {.special = true}), "<s>a a");
  const std::vector<int32_t> two_spaces = {260, 259};
  EXPECT_EQ(t->decode(two_spaces), " a");
}

}  // namespace
}  // namespace bp::text
