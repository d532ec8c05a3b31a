#include "core/text/special_tokens.hpp"

#include <gmock/gmock.h>

#include "tests/core/text/small_vocabulary.hpp"

namespace bp::text {
namespace {

using testing::add_token;
using ::testing::HasSubstr;

SpecialTokens make_special() {
  Vocabulary v;
  add_token(v, "plain");
  add_token(v, "<a>", TokenType::kControl);
  add_token(v, "<a>b", TokenType::kControl);
  add_token(v, "\n\n", TokenType::kUserDefined);
  add_token(v, "\n\n\n\n", TokenType::kUserDefined);
  add_token(v, "", TokenType::kUserDefined);
  auto special = SpecialTokens::create(v);
  EXPECT_TRUE(special.ok()) << special.status().message();
  return std::move(special).value();
}

TEST(SpecialTokens, LeftmostThenLongest) {
  const SpecialTokens special = make_special();
  const auto expect = [&](std::string_view text, bool control, size_t begin, size_t size,
                          int32_t id) {
    const auto match = special.find(text, control);
    EXPECT_EQ(match.begin, begin) << text;
    EXPECT_EQ(match.size, size) << text;
    EXPECT_EQ(match.id, id) << text;
  };
  expect("x<a>b", true, 1, 4, 2);
  expect("x<a>c<a>b", true, 1, 3, 1);
  expect("<<a>", true, 1, 3, 1);
  expect("\n\n\n", true, 0, 2, 3);
  expect("\n\n\n\n\n", true, 0, 4, 4);
  expect("<a>\n\n", false, 3, 2, 3);
  expect("plain <a", true, 8, 0, kNoToken);
  expect("", true, 0, 0, kNoToken);
}

TEST(SpecialTokens, NoControlTokenBeginsAtPlainOffsets) {
  const SpecialTokens special = make_special();
  const std::vector<size_t> plain = {1, 4};
  EXPECT_EQ(special.find("x<a><a>b", true, 0, plain).begin, 8u);
  EXPECT_EQ(special.find("x<a>x<a>", true, 0, plain).begin, 5u);
  EXPECT_EQ(special.find("x<a>\n\n", true, 0, plain).id, 3) << "user-defined tokens still count";
  EXPECT_EQ(special.find("<a><a>", true, 1).begin, 3u);
}

TEST(SpecialTokens, FindsControlTextsEvenCutOff) {
  const SpecialTokens special = make_special();
  const auto offsets = [&](std::string_view text) {
    std::vector<size_t> found;
    special.find_control_texts(text, found);
    return found;
  };
  EXPECT_THAT(offsets("x<a><a>b"), ::testing::ElementsAre(1, 4));
  EXPECT_THAT(offsets("<ab <a"), ::testing::ElementsAre(4));
  EXPECT_THAT(offsets("a <"), ::testing::ElementsAre(2));
  EXPECT_THAT(offsets("<b> \n\n"), ::testing::IsEmpty());
}

TEST(SpecialTokens, TextLengthIsBounded) {
  Vocabulary v;
  add_token(v, std::string(SpecialTokens::kMaxTextBytes, 'x'), TokenType::kControl);
  EXPECT_TRUE(SpecialTokens::create(v).ok());
  add_token(v, std::string(SpecialTokens::kMaxTextBytes + 1, 'x'), TokenType::kControl);
  EXPECT_THAT(SpecialTokens::create(v).status().message(),
              HasSubstr("token 1 is a special token of 513 bytes"));
}

}  // namespace
}  // namespace bp::text
