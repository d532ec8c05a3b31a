#include "core/text/vocabulary.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>

#include "core/text/tokenizer.hpp"
#include "tests/support/metadata_builder.hpp"

namespace bp::text {
namespace {

using bp::testing::MetadataBuilder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

MetadataBuilder gpt2_metadata() {
  MetadataBuilder b;
  b.string("tokenizer.ggml.model", "gpt2").string("tokenizer.ggml.pre", "qwen2");
  b.strings("tokenizer.ggml.tokens", {"a", "b", "ab", "<|im_end|>", "<|endoftext|>"});
  b.i64s("tokenizer.ggml.token_type", {1, 1, 1, 3, 3});
  b.strings("tokenizer.ggml.merges", {"a b"});
  b.u64("tokenizer.ggml.eos_token_id", 4).string("tokenizer.chat_template", "{{ x }}");
  b.string("tokenizer.chat_template.tool_use", "{{ tools }}");
  return b;
}

std::string error_of(const MetadataBuilder& b) {
  const auto v = read_vocabulary(b.entries());
  EXPECT_FALSE(v.ok());
  return v.ok() ? "" : v.status().message();
}

TEST(Vocabulary, ReadsWhatTheFileSays) {
  const auto v = read_vocabulary(gpt2_metadata().entries());
  ASSERT_TRUE(v.ok()) << v.status().message();
  EXPECT_EQ(v->model, "gpt2");
  EXPECT_EQ(v->pre, "qwen2");
  EXPECT_EQ(v->n_tokens(), 5);
  EXPECT_EQ(v->eos, 4);
  EXPECT_EQ(v->bos, kNoToken);
  EXPECT_FALSE(v->add_bos);
  EXPECT_FALSE(v->add_space_prefix);
  EXPECT_EQ(v->chat_template, "{{ x }}");
  EXPECT_EQ(v->tool_template, "{{ tools }}");
  ASSERT_EQ(v->merges.size(), 1u);
  EXPECT_EQ(v->merges[0], "a b");
}

TEST(Vocabulary, DefaultsDependOnTheModel) {
  MetadataBuilder b;
  b.string("tokenizer.ggml.model", "llama");
  b.strings("tokenizer.ggml.tokens", {"<unk>", "<s>", "</s>"});
  b.f64s("tokenizer.ggml.scores", {0, 0, 0});
  auto v = read_vocabulary(b.entries());
  ASSERT_TRUE(v.ok()) << v.status().message();
  EXPECT_TRUE(v->add_bos);
  EXPECT_TRUE(v->add_space_prefix);
  EXPECT_EQ(v->bos, 1);
  EXPECT_EQ(v->eos, 2);

  b = gpt2_metadata();
  b.string("tokenizer.ggml.pre", "llama-bpe").u64("tokenizer.ggml.bos_token_id", 3);
  EXPECT_TRUE(read_vocabulary(b.entries())->add_bos);

  b.string("tokenizer.ggml.model", "bert").u64("tokenizer.ggml.cls_token_id", 3);
  b.u64("tokenizer.ggml.seperator_token_id", 4).remove("tokenizer.ggml.bos_token_id");
  v = read_vocabulary(b.entries());
  ASSERT_TRUE(v.ok()) << v.status().message();
  EXPECT_TRUE(v->add_bos && v->add_sep);
  EXPECT_EQ(v->bos, 3);
}

TEST(Vocabulary, EndOfGenerationByIdAndByText) {
  auto v = read_vocabulary(gpt2_metadata().entries());
  EXPECT_THAT(v->end_of_generation, ElementsAre(3, 4));
  EXPECT_TRUE(v->is_end_of_generation(3));
  EXPECT_FALSE(v->is_end_of_generation(2));

  Vocabulary channels;
  channels.tokens = {"<|end|>", "<|return|>", "<|call|>", "x"};
  find_end_of_generation(channels);
  EXPECT_THAT(channels.end_of_generation, ElementsAre(1, 2));
  EXPECT_EQ(channels.type(1), TokenType::kControl);
  EXPECT_EQ(channels.type(3), TokenType::kNormal);

  // What another file names may be ordinary text.
  channels.types[0] = TokenType::kUserDefined;
  add_end_of_generation(channels, {0, 3, 99});
  EXPECT_THAT(channels.end_of_generation, ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(channels.type(0), TokenType::kControl);
  EXPECT_EQ(channels.type(3), TokenType::kNormal);
}

// FunctionGemma waits for the function's answer, which its files may not say.
TEST(Vocabulary, AnAnswerEndsWhereThatOfAFunctionBegins) {
  Vocabulary v;
  v.tokens = {"<end_of_turn>", "<end_function_call>", "<start_function_response>"};
  find_end_of_generation(v);
  EXPECT_THAT(v.end_of_generation, ElementsAre(0, 2));
}

TEST(Vocabulary, Phi3sTokensTakeTheSpaceBehindThem) {
  MetadataBuilder b = gpt2_metadata();
  EXPECT_TRUE(read_vocabulary(b.entries())->added.empty());
  b.string("general.name", "Phi-3 Mini");
  const auto v = read_vocabulary(b.entries());
  ASSERT_EQ(v->added.size(), 1u);  // <|endoftext|> takes none
  EXPECT_EQ(v->added[0].id, 3);
  EXPECT_TRUE(v->added[0].takes_space_behind);
  EXPECT_FALSE(v->added[0].takes_space_before);
}

TEST(Vocabulary, Phi3IsToldByItsArchitecture) {
  MetadataBuilder b = gpt2_metadata();
  b.string("general.name", "Phi 3.5 Mini Instruct").string("general.architecture", "phi3");
  EXPECT_TRUE(read_vocabulary(b.entries())->added.empty()) << "Phi-4's tokens";
  b.string("tokenizer.ggml.model", "llama").f64s("tokenizer.ggml.scores", {0, 0, 0, 0, 0});
  const auto v = read_vocabulary(b.entries());
  ASSERT_TRUE(v.ok()) << v.status().message();
  ASSERT_EQ(v->added.size(), 1u);
  EXPECT_EQ(v->added[0].id, 3);
  EXPECT_TRUE(v->added[0].takes_space_behind);
  EXPECT_TRUE(read_vocabulary(b.string("general.architecture", "llama").entries())->added.empty());
}

TEST(Vocabulary, FlagsOfAddedTokensComeInAnyOrder) {
  std::vector<int64_t> ids(300'000);
  std::iota(ids.begin(), ids.end(), 0);
  MetadataBuilder b = gpt2_metadata();
  b.strings("tokenizer.ggml.tokens", std::vector<std::string>(ids.size(), "a"));
  b.remove("tokenizer.ggml.token_type");
  const auto seconds = [&] {
    b.i64s("tokenizer.backplane.lstrip_ids", ids);
    const auto start = std::chrono::steady_clock::now();
    const auto v = read_vocabulary(b.entries());
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    EXPECT_TRUE(v.ok()) << v.status().message();
    if (!v.ok()) return 0.0;
    EXPECT_EQ(v->added.size(), ids.size());
    EXPECT_TRUE(std::ranges::is_sorted(v->added, {}, &AddedToken::id));
    return elapsed.count();
  };
  const double ascending = seconds();
  std::ranges::reverse(ids);
  EXPECT_LT(seconds(), 5 * ascending) << "a quadratic step takes seconds";
}

TEST(Vocabulary, FlagsOfAddedTokensHaveKeys) {
  MetadataBuilder b = gpt2_metadata();
  b.i64s("tokenizer.backplane.rstrip_ids", {4, 3}).i64s("tokenizer.backplane.lstrip_ids", {4});
  const auto v = read_vocabulary(b.entries());
  ASSERT_TRUE(v.ok()) << v.status().message();
  ASSERT_EQ(v->added.size(), 2u);
  EXPECT_EQ(v->added[0].id, 3);
  EXPECT_TRUE(v->added[1].takes_space_behind && v->added[1].takes_space_before);
  EXPECT_FALSE(v->added[1].is_word);
  b.i64s("tokenizer.backplane.single_word_ids", {5});
  EXPECT_EQ(error_of(b),
            "tokenizer.backplane.single_word_ids[0] is 5, but the vocabulary has 5 tokens");
}

TEST(Vocabulary, ArraysHaveOneLength) {
  EXPECT_EQ(error_of(gpt2_metadata().i64s("tokenizer.ggml.token_type", {1, 1})),
            "tokenizer.ggml.token_type has 2 elements, but tokenizer.ggml.tokens has 5");
  EXPECT_EQ(error_of(gpt2_metadata().f64s("tokenizer.ggml.scores", {1, 2, 3, 4, 5, 6})),
            "tokenizer.ggml.scores has 6 elements, but tokenizer.ggml.tokens has 5");
}

TEST(Vocabulary, SpecialIdsLieInside) {
  for (const char* key : {"tokenizer.ggml.bos_token_id", "tokenizer.ggml.eos_token_id",
                          "tokenizer.ggml.eot_token_id", "tokenizer.ggml.unknown_token_id",
                          "tokenizer.ggml.seperator_token_id", "tokenizer.ggml.padding_token_id"}) {
    EXPECT_EQ(error_of(gpt2_metadata().u64(key, 5)),
              std::string(key) + " is 5, but the vocabulary has 5 tokens");
    EXPECT_THAT(error_of(gpt2_metadata().i64(key, -1)), HasSubstr(key));
    EXPECT_THAT(error_of(gpt2_metadata().u64(key, ~uint64_t{0})), HasSubstr(key));
  }
}

TEST(Vocabulary, WrongTypesAndMissingKeys) {
  EXPECT_THAT(error_of(gpt2_metadata().remove("tokenizer.ggml.model")),
              HasSubstr("\"tokenizer.ggml.model\" is missing"));
  EXPECT_THAT(error_of(gpt2_metadata().remove("tokenizer.ggml.tokens")),
              HasSubstr("\"tokenizer.ggml.tokens\" is missing"));
  EXPECT_THAT(error_of(gpt2_metadata().remove("tokenizer.ggml.merges")),
              HasSubstr("tokenizer.ggml.merges is missing"));
  EXPECT_THAT(error_of(gpt2_metadata().u64s("tokenizer.ggml.tokens", {1})),
              HasSubstr("expected array of string, found u64"));
  EXPECT_THAT(error_of(gpt2_metadata().strings("tokenizer.ggml.tokens", {})), HasSubstr("empty"));
  EXPECT_THAT(error_of(gpt2_metadata().i64s("tokenizer.ggml.token_type", {1, 1, 7, 1, 1})),
              HasSubstr("tokenizer.ggml.token_type[2] is 7"));
  EXPECT_THAT(error_of(gpt2_metadata().boolean("tokenizer.ggml.add_bos_token", true)),
              HasSubstr("tokenizer.ggml.bos_token_id is missing"));
}

TEST(Vocabulary, ChangesOfTextThatTheModelDoesNotMakeAreRefused) {
  EXPECT_THAT(error_of(gpt2_metadata().i64s("tokenizer.ggml.precompiled_charsmap", {1})),
              HasSubstr("precompiled_charsmap: model \"gpt2\""));
  EXPECT_TRUE(
      read_vocabulary(gpt2_metadata().i64s("tokenizer.ggml.precompiled_charsmap", {}).entries())
          .ok());
  for (const char* key :
       {"tokenizer.ggml.normalizer.lowercase", "tokenizer.ggml.normalizer.strip_accents"}) {
    EXPECT_THAT(error_of(gpt2_metadata().boolean(key, true)), HasSubstr(key));
    EXPECT_TRUE(read_vocabulary(gpt2_metadata().boolean(key, false).entries()).ok());
  }
}

TEST(Vocabulary, ScoresOfUnigramAreFinite) {
  MetadataBuilder b;
  b.string("tokenizer.ggml.model", "t5").u64("tokenizer.ggml.unknown_token_id", 0);
  b.strings("tokenizer.ggml.tokens", {"<unk>", "a"}).i64s("tokenizer.ggml.token_type", {2, 1});
  for (const double score : {-HUGE_VAL, -1.0, HUGE_VAL}) {
    auto v = read_vocabulary(b.f64s("tokenizer.ggml.scores", {-HUGE_VAL, score}).entries());
    ASSERT_TRUE(v.ok()) << v.status().message();
    const Status status = Tokenizer::create(*std::move(v)).status();
    const char* const rule = score == -1.0 ? "" : "scores[1] is not finite";
    EXPECT_THAT(status.message(), HasSubstr(rule));
    EXPECT_EQ(status.ok(), score == -1.0);
  }
}

TEST(Vocabulary, ByteTokensAreParsedByHand) {
  EXPECT_EQ(parse_byte_token("<0x0A>"), 10);
  EXPECT_EQ(parse_byte_token("<0xfF>"), 255);
  for (const char* text : {"", "<0x>", "<0x1>", "<0x123>", "<0x-1>", "<0x+1>", "<0x 1>", "<0xG0>",
                           "<0x00", "0x00>", "<0X00>"}) {
    EXPECT_EQ(parse_byte_token(text), std::nullopt) << text;
  }
  MetadataBuilder b = gpt2_metadata();
  b.strings("tokenizer.ggml.tokens", {"a", "<0x-1>", "b", "c", "d"});
  b.i64s("tokenizer.ggml.token_type", {1, 6, 1, 1, 1});
  EXPECT_THAT(error_of(b), HasSubstr("tokenizer.ggml.tokens[1] is a byte token"));
}

}  // namespace
}  // namespace bp::text
