#include "core/text/pre_tokenizer.hpp"

#include <gmock/gmock.h>

#include "tests/core/text/small_vocabulary.hpp"

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

TEST(PreTokenizer, Jais2HalvesLongSpaces) {
  std::vector<size_t> sizes;
  const std::string spaces(2000, ' ');
  for (const auto& piece : split("jais-2", "a" + spaces + "x")) sizes.push_back(piece.size());
  EXPECT_THAT(sizes, ElementsAre(1, 512, 512, 512, 256, 128, 64, 8, 4, 2, 1, 2));
  EXPECT_THAT(split("jais-2", "!\n" + spaces + "\n x"), ElementsAre("!\n", spaces + "\n", " x"));
}

struct Case {
  const char* name;
  const char* text;
  std::vector<std::string> pieces;
};

// One for each of the other patterns, at the place where it parts from its relatives.
const Case kCases[] = {
    {"minicpm5", "a  12", {"a", "  ", "12"}},
    {"jais-2", "       x", {"    ", "  ", " x"}},
    {"qwen35", "हिन्दी a", {"हिन्दी", " a"}},
    {"ufakzeka", "Ankara'da", {"Ankara", "'da"}},
    {"seed-coder", "x!\n\n", {"x", "!", "\n\n"}},
    {"laguna", "a!\n\nb", {"a", "!", "\n\n", "b"}},
    {"exaone-moe", "see you  soon 1", {"see you", " ", " soon", " ", "1"}},
    {"gpt-4o",
     "camelCase HTTPServer's 1234//\n",
     {"camel", "Case", " HTTPServer's", " ", "123", "4", "//\n"}},
    {"gpt-4o", "ÀB ǅx", {"ÀB", " ǅx"}},
    {"tiny_aya", "1234567 12ab", {"1", "234", "567", " ", "12", "ab"}},
    {"tekken", "it's 12", {"it", "'s", " ", "1", "2"}},
    {"youtu", "한글。Ab12", {"한글", "。", "Ab", "1", "2"}},
    {"kimi-k2", "中文abc、Ab", {"中文", "abc", "、Ab"}},
    {"deepseek-llm", "Hi, 世界 12\n ", {"Hi", ",", " ", "世界", " ", "1", "2", "\n", " "}},
    {"deepseek-v3", "f(x)=12345中文 a", {"f", "(x", ")=", "123", "45", "中文", " a"}},
    {"spark2_5", "a!\n\n", {"a", "!", "\n", "\n"}},
    {"afmoe", "x1234 y", {"x", "1", "234", " y"}},
    {"superbpe", "pay 1234567 now", {"pay ", "1", "234", "567", " now"}},
    {"falcon", "a 1234!?", {"a", " ", "123", "4", "!?"}},
    {"bloom", "Hi, you (x)", {"Hi", ",", " you", " (", "x", ")"}},
    {"viking", "ab12", {"ab", "1", "2"}},
    {"chameleon", "a    b\t12!", {"a", "    ", "b", "\t", "1", "2", "!"}},
};

TEST(PreTokenizer, OtherPatterns) {
  for (const Case& c : kCases) {
    EXPECT_THAT(split(c.name, c.text), ::testing::ElementsAreArray(c.pieces)) << c.name;
  }
}

// Numbers are cut from their ends, whatever stands between them.
TEST(PreTokenizer, DigitsInThrees) {
  const std::string digits(3001, '7');
  EXPECT_EQ(split("superbpe", digits).size(), 1001u);
  EXPECT_EQ(split("superbpe", digits).front(), "7");
  EXPECT_THAT(split("superbpe", "1234½5"), ElementsAre("1", "234½5"));
  EXPECT_THAT(split("superbpe", "½123456"), ElementsAre("½", "123", "456"));
  EXPECT_EQ(split("tiny_aya", digits).size(), 1001u);
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
  for (const char* name : testing::kPreTokenizerKinds) {
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

TEST(PreTokenizer, UnknownNameIsRefusedWithTheNearest) {
  const Status status = PreTokenizer::create("lama-bpe").status();
  EXPECT_EQ(status.code(), Code::kUnsupported);
  EXPECT_THAT(status.message(), HasSubstr("'lama-bpe' is unknown; nearest: llama-bpe"));
}

}  // namespace
}  // namespace bp::text
