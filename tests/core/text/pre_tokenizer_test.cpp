#include "core/text/pre_tokenizer.hpp"

#include <gmock/gmock.h>

namespace bp::text {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> split(std::string_view name, std::string_view text) {
  auto pre = PreTokenizer::create(name);
  EXPECT_TRUE(pre.ok()) << pre.status().message();
  std::vector<std::string> pieces;
  pre->for_each_piece(text, [&](std::string_view piece) { pieces.emplace_back(piece); });
  return pieces;
}

TEST(PreTokenizer, Gpt2) {
  EXPECT_THAT(split("gpt-2", "I'll say  hi"), ElementsAre("I", "'ll", " say", " ", " hi"));
  EXPECT_THAT(split("gpt-2", "I'LL"), ElementsAre("I", "'", "LL"));
  EXPECT_THAT(split("gpt-2", " 2024!? \t\n x"), ElementsAre(" 2024", "!?", " \t\n", " x"));
  EXPECT_THAT(split("gpt-2", "a\tb"), ElementsAre("a", "\t", "b"));
  EXPECT_THAT(split("gpt-2", "end  "), ElementsAre("end", "  "));
  EXPECT_THAT(split("", "é x٣"), ElementsAre("é", " x", "٣"));
}

TEST(PreTokenizer, Llama3) {
  EXPECT_THAT(split("llama-bpe", "I'LL 12345"), ElementsAre("I", "'LL", " ", "123", "45"));
  EXPECT_THAT(split("llama3", "(foo) \n\n bar"), ElementsAre("(foo", ")", " \n\n", " bar"));
  EXPECT_THAT(split("llama3", "x ==\n\ny"), ElementsAre("x", " ==\n\n", "y"));
  EXPECT_THAT(split("llama3", "\tx\n"), ElementsAre("\tx", "\n"));
  EXPECT_THAT(split("llama3", "it'ſ"), ElementsAre("it", "'ſ"));
}

TEST(PreTokenizer, Qwen2SplitsDigits) {
  EXPECT_THAT(split("qwen2", "a 12\n"), ElementsAre("a", " ", "1", "2", "\n"));
  EXPECT_THAT(split("deepseek-r1-qwen", "don't"), ElementsAre("don", "'t"));
}

TEST(PreTokenizer, SmollmSplitsDigitsFirst) {
  EXPECT_THAT(split("smollm", "in 2024 it's"),
              ElementsAre("in", " ", "2", "0", "2", "4", " it", "'s"));
}

TEST(PreTokenizer, DeepseekCoder) {
  EXPECT_THAT(split("deepseek-coder", "if (x):\n\t今日は42"),
              ElementsAre("if", " (", "x", "):", "\n", "\t", "今日は", "4", "2"));
  EXPECT_THAT(split("deepseek-coder", "a中b"), ElementsAre("a", "中", "b"));
}

// Whatever the text, the pieces are the text again, and none is empty.
TEST(PreTokenizer, PiecesCoverTheText) {
  const std::string texts[] = {"Hello, y'all! \xF0\x9F\x98\x81 3.14 ",
                               "\xFF\xC3 \x80'\xE2\x82",
                               std::string("\0 a\0", 4),
                               "'",
                               " ",
                               "\r\n \r",
                               "''s 'ſ \xC5"};
  for (const char* name : {"gpt-2", "llama-bpe", "qwen2", "smollm", "deepseek-coder"}) {
    for (const std::string& text : texts) {
      std::string joined;
      for (const std::string& piece : split(name, text)) {
        EXPECT_FALSE(piece.empty()) << name;
        joined += piece;
      }
      EXPECT_EQ(joined, text) << name;
    }
  }
}

TEST(PreTokenizer, UnknownNameIsRefusedWithTheKnownOnes) {
  const Status status = PreTokenizer::create("made-up").status();
  EXPECT_EQ(status.code(), Code::kUnsupported);
  EXPECT_THAT(status.message(), HasSubstr("\"made-up\""));
  EXPECT_THAT(status.message(), HasSubstr("llama-bpe, dbrx"));
}

}  // namespace
}  // namespace bp::text
