// What a vocabulary says is read again from the keys it is written as.

#include "core/convert/gguf_vocabulary_keys.hpp"

#include <gtest/gtest.h>

#include <memory>

#include "core/text/tokenizer.hpp"

namespace bp::convert {
namespace {

std::unique_ptr<text::Tokenizer> written_and_read(const text::Vocabulary& v) {
  MetadataTable metadata;
  put_vocabulary(v, metadata);
  auto read = text::read_vocabulary({metadata.entries()});
  EXPECT_TRUE(read.ok()) << read.status().message();
  if (!read.ok()) return nullptr;
  auto tokenizer = text::Tokenizer::create(*std::move(read));
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  return tokenizer.ok() ? *std::move(tokenizer) : nullptr;
}

TEST(GgufVocabularyKeys, CollapsedSpacesOfBpeStayCollapsed) {
  for (const bool collapses : {false, true}) {
    text::Vocabulary v;
    v.model = "llama";
    v.tokens = {"<unk>", "a", "\u2581"};
    v.types = {text::TokenType::kUnknown, text::TokenType::kNormal, text::TokenType::kNormal};
    v.scores = {0, -1, -2};
    v.unk = 0;
    v.remove_extra_whitespaces = collapses;
    const auto tokenizer = written_and_read(v);
    ASSERT_NE(tokenizer, nullptr);
    EXPECT_EQ(tokenizer->encode(" a  a"),
              collapses ? (std::vector<int32_t>{1, 2, 1}) : (std::vector<int32_t>{2, 1, 2, 2, 1}));
  }
}

TEST(GgufVocabularyKeys, WhiteSpaceOfAddedTokensStaysTheirs) {
  text::Vocabulary v;
  v.model = "gpt2";
  v.pre = "gpt-2";
  v.tokens = {"a", "b", "<m>", "<n>"};
  v.types = {text::TokenType::kNormal, text::TokenType::kNormal, text::TokenType::kControl,
             text::TokenType::kControl};
  v.added = {{.id = 2, .takes_space_behind = true}, {.id = 3, .takes_space_before = true}};
  const auto tokenizer = written_and_read(v);
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_EQ(tokenizer->encode("a<m> \nb \n<n>a"), (std::vector<int32_t>{0, 2, 1, 3, 0}));
}

}  // namespace
}  // namespace bp::convert
