#include <gmock/gmock.h>

#include "tests/core/text/small_vocabulary.hpp"

namespace bp::text {
namespace {

using ::testing::ElementsAre;

constexpr EncodeOptions kPlain = {.add_special = false};

// Ids 0 to 255 are bytes; then a, b, the mark of a space, ab, the mark with ab, a line's end, two.
Vocabulary small(const char* model, const char* pre) {
  Vocabulary v;
  v.model = model;
  v.pre = pre;
  constexpr char kHex[] = "0123456789ABCDEF";
  for (int b = 0; b < 256; ++b) {
    testing::add_token(v, std::string("<0x") + kHex[b / 16] + kHex[b % 16] + '>');
  }
  for (const char* text : {"a", "b", "▁", "ab", "▁ab", "\n", "\n\n"}) testing::add_token(v, text);
  v.merges = {"a b", "▁ ab", "\n \n"};
  return v;
}

TEST(CharacterBpe, MergesCharactersWithinLines) {
  for (const char* pre : {"gemma4", "sarvam-moe", "granite-embed-multi-311m"}) {
    const auto tokenizer = testing::make_tokenizer(small("gpt2", pre));
    const auto ids = tokenizer->encode("ab ab\n\nc", kPlain);
    EXPECT_THAT(ids, ElementsAre(259, 260, 262, 'c')) << pre;
    EXPECT_EQ(tokenizer->decode(ids), "ab ab\n\nc") << pre;
  }
}

TEST(CharacterBpe, DropsWhatIsBetweenWords) {
  const auto tokenizer = testing::make_tokenizer(small("whitespace", "whitespace"));
  EXPECT_THAT(tokenizer->encode(" ab \n ab", kPlain), ElementsAre(259, 259));
}

}  // namespace
}  // namespace bp::text
