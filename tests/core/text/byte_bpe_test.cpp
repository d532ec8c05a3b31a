#include <gmock/gmock.h>

#include <thread>

#include "tests/core/text/small_vocabulary.hpp"

namespace bp::text {
namespace {

using testing::add_token;
using testing::byte_vocabulary;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::make_tokenizer;
using testing::pieces_of;

TEST(ByteBpe, MergesByRankThenFromTheLeft) {
  const auto t = make_tokenizer(byte_vocabulary({"b c", "a b", "ab c", "Ġ a"}));
  EXPECT_THAT(pieces_of(*t, "abc"), ElementsAre("a", "bc"));
  EXPECT_THAT(pieces_of(*t, "abab"), ElementsAre("ab", "ab"));
  EXPECT_THAT(pieces_of(*t, "x ab"), ElementsAre("x", " ", "ab"));
  EXPECT_THAT(pieces_of(*t, "x ac"), ElementsAre("x", " a", "c"));
}

// A token that its own merges do not lead to is not used, unless the model says so (llama3).
TEST(ByteBpe, WholePiecesOnlyWhereTheModelPrefersThem) {
  const std::vector<std::string> merges = {"b c", "a b", "ab c"};
  EXPECT_THAT(pieces_of(*make_tokenizer(byte_vocabulary(merges)), "abc"), ElementsAre("a", "bc"));
  EXPECT_THAT(pieces_of(*make_tokenizer(byte_vocabulary(merges, "llama-bpe")), "abc"),
              ElementsAre("abc"));
}

TEST(ByteBpe, AnyBytesComeBack) {
  const auto t = make_tokenizer(byte_vocabulary({"Ã ©"}));
  std::string all;
  for (int byte = 255; byte >= 0; --byte) all.push_back(static_cast<char>(byte));
  for (const std::string& text : {std::string("caf\xC3\xA9"), std::string("\xC3"), all}) {
    std::string joined;
    for (const std::string& piece : pieces_of(*t, text)) joined += piece;
    EXPECT_EQ(joined, text);
  }
  EXPECT_THAT(pieces_of(*t, "\xC3\xA9"), ElementsAre("\xC3\xA9"));
}

TEST(ByteBpe, BytesWithoutATokenAreDropped) {
  Vocabulary v = byte_vocabulary({});
  v.tokens.set('b', "unused");
  EXPECT_THAT(pieces_of(*make_tokenizer(v), "abc"), ElementsAre("a", "c"));
}

TEST(ByteBpe, ControlTokensOnlyWhereParsed) {
  const auto t = make_tokenizer(byte_vocabulary({}));
  EXPECT_THAT(pieces_of(*t, "a<|im_end|>b"), ElementsAre("a", "<|im_end|>", "b"));
  const auto plain = t->encode("<|im_end|>", {.add_special = false, .parse_special = false});
  EXPECT_EQ(plain.size(), 10u);
  EXPECT_THAT(plain, ::testing::Each(::testing::Lt(256)));
  EXPECT_THAT(pieces_of(*t, "a<user>b", false), ElementsAre("a", "<user>", "b"));
}

// Merges that spell out a control token must not make one.
TEST(ByteBpe, MergesNeverGiveControlTokens) {
  Vocabulary v = byte_vocabulary({"a b"});
  v.types[256] = TokenType::kControl;
  const auto t = make_tokenizer(v);
  EXPECT_THAT(t->encode("ab", {false, false}), ElementsAre('a', 'b'));
  EXPECT_THAT(t->encode("ab", {false, true}), ElementsAre(256));
}

TEST(ByteBpe, AddsBosAndEosAsTheVocabularySays) {
  Vocabulary v = byte_vocabulary({});
  v.add_bos = true;
  v.add_eos = true;
  const auto t = make_tokenizer(v);
  EXPECT_THAT(t->encode("a"), ElementsAre(v.bos, 'a', v.eos));
  EXPECT_THAT(t->encode(""), ElementsAre(v.bos, v.eos));
  EXPECT_THAT(t->encode("a", {.add_special = false}), ElementsAre('a'));
}

TEST(ByteBpe, ThreadsShareOneTokenizer) {
  const std::vector<std::string> merges = {"b c", "a b", "ab c", "Ġ a"};
  const std::string text = "abc ab a bc cab abcabc acb";
  const auto expected = make_tokenizer(byte_vocabulary(merges))->encode(text);
  const auto shared = make_tokenizer(byte_vocabulary(merges));
  std::vector<std::vector<int32_t>> results(4);
  std::vector<std::thread> threads;
  for (auto& result : results) {
    threads.emplace_back([&] { result = shared->encode(text); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(results, ::testing::Each(expected));
}

TEST(ByteBpe, RefusesBadMerges) {
  for (const char* merge : {"", "ab", "a ", " a"}) {
    Vocabulary v = byte_vocabulary({});
    v.merges = {merge};
    const Status status = Tokenizer::create(v).status();
    EXPECT_THAT(status.message(), HasSubstr("tokenizer.ggml.merges[0]")) << merge;
  }
}

TEST(ByteBpe, UnknownModelIsRefusedWithTheKnownOnes) {
  Vocabulary v = byte_vocabulary({});
  v.model = "rwkv";
  const Status status = Tokenizer::create(v).status();
  EXPECT_EQ(status.code(), Code::kUnsupported);
  EXPECT_THAT(status.message(),
              HasSubstr("\"rwkv\"; known are llama, gpt2, gemma4, whitespace, bert, t5"));
}

}  // namespace
}  // namespace bp::text
