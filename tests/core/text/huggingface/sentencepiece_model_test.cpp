// tokenizer.model files, built field by field.

#include "fixture.hpp"

#include <cmath>
#include <cstring>

namespace bp::text {
namespace {

using ::testing::ElementsAre;
using testing::FolderMetadata;
using ::testing::HasSubstr;
using testing::tokens_of;

std::string varint(uint64_t value) {
  std::string out;
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  return out + static_cast<char>(value);
}

std::string number(uint32_t field, uint64_t value) {
  return varint(field << 3) + varint(value);
}

std::string bytes(uint32_t field, const std::string& value) {
  return varint(field << 3 | 2) + varint(value.size()) + value;
}

std::string piece(const std::string& text, float score, uint64_t type = 1) {
  std::string raw(sizeof score, '\0');
  std::memcpy(raw.data(), &score, sizeof score);
  return bytes(1, bytes(1, text) + varint(2 << 3 | 5) + raw + number(3, type));
}

// <unk> <s> </s>, then pieces; type 1: unigram, 2: BPE.
std::string model(uint64_t type, const std::string& pieces) {
  return piece("<unk>", 0, 2) + piece("<s>", 0, 3) + piece("</s>", 0, 3) + pieces +
         bytes(2, number(3, type) + number(40, 0) + number(41, 1) + number(42, 2)) +
         bytes(3, number(3, 1) + number(4, 0));
}

Result<std::unique_ptr<Tokenizer>> from_model(const std::string& bytes_of_model,
                                              const std::string& config = "{}") {
  BP_ASSIGN(Vocabulary vocabulary, FolderMetadata()
                                       .set("tokenizer.sentencepiece.model", bytes_of_model)
                                       .set("tokenizer.huggingface.config", config)
                                       .read());
  return Tokenizer::create(std::move(vocabulary));
}

const std::string kPieces = piece("\u2581", -5) + piece("a", -6) + piece("b", -7) +
                            piece("ab", -1) + piece("\u2581a", -0.5);

TEST(SentencePieceModels, Bpe) {
  const auto tokenizer = from_model(model(2, kPieces));
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  EXPECT_THAT(tokens_of(**tokenizer, "ab"), ElementsAre("\u2581a", "b"));
  EXPECT_EQ((*tokenizer)->encode("a"), (std::vector<int32_t>{1, 7}));
  EXPECT_EQ((*tokenizer)->decode(std::vector<int32_t>{1, 7, 6}), "aab");
  EXPECT_THAT((*tokenizer)->vocabulary().end_of_generation, ElementsAre(2));
}

TEST(SentencePieceModels, Unigram) {
  const auto tokenizer = from_model(model(1, kPieces));
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  EXPECT_THAT(tokens_of(**tokenizer, "ab"), ElementsAre("\u2581", "ab"));
  EXPECT_EQ((*tokenizer)->decode((*tokenizer)->encode("ab a")), "ab a");
}

// Behind 2^24 float32 has even numbers alone: -0.5 becomes 0, and -1.2 or -1.5 behind it -2.
TEST(SentencePieceModels, UnigramSumsWholeTextsInFloat32) {
  const auto tokenizer = from_model(model(
      1, piece("\u2581c", -16777216) + piece("\u2581", 0) + piece("a", -0.5f) + piece("b", -0.6f) +
             piece("ab", -1.01f) + piece("d", -1.2f) + piece("ad", -1.5f)));
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  EXPECT_THAT(tokens_of(**tokenizer, "ab"), ElementsAre("\u2581", "ab"));
  EXPECT_THAT(tokens_of(**tokenizer, "c ab"), ElementsAre("\u2581c", "\u2581", "a", "b"));
  EXPECT_THAT(tokens_of(**tokenizer, "c ad"), ElementsAre("\u2581c", "\u2581", "ad"));
}

TEST(SentencePieceModels, UnigramKeepsTextsWhoseScoresOverflow) {
  const auto tokenizer = from_model(model(1, piece("\u2581", -3e38f) + piece("a", -3e38f)));
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  EXPECT_THAT(tokens_of(**tokenizer, "aa"), ElementsAre("\u2581", "a", "a"));
}

TEST(SentencePieceModels, TheConfigAddsTokens) {
  const auto tokenizer =
      from_model(model(2, kPieces), R"({"add_bos_token": false, "added_tokens_decoder": {
        "2": {"content": "</s>", "special": true}, "9": {"content": "<m>", "special": true},
        "x": {"content": "no"}, "10": "no"}})");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  EXPECT_EQ((*tokenizer)->vocabulary().n_tokens(), 10);
  EXPECT_EQ((*tokenizer)->encode("a<m>"), (std::vector<int32_t>{7, 9}));
  const auto more =
      from_model(model(2, kPieces), R"({"added_tokens_decoder": {"8": {"content": "<m>"}}})");
  ASSERT_TRUE(more.ok()) << more.status().message();
  EXPECT_THAT(tokens_of(**more, "a<m>"), ElementsAre("\u2581a", "<m>"));
}

TEST(SentencePieceModels, DamageIsSurvived) {
  const std::string whole = model(2, kPieces);
  EXPECT_THAT(from_model("").status().message(), HasSubstr("no pieces"));
  EXPECT_THAT(from_model(model(3, kPieces)).status().message(), HasSubstr("neither a BPE"));
  EXPECT_THAT(from_model(model(2, piece("a", NAN))).status().message(), HasSubstr("malformed"));
  EXPECT_THAT(from_model(model(2, piece("a", 0, 9))).status().message(), HasSubstr("malformed"));
  for (size_t n = 0; n < whole.size(); ++n) {
    static_cast<void>(from_model(whole.substr(0, n)));
    for (const char byte : {'\0', '\x7f', '\xff'}) {
      std::string damaged = whole;
      damaged[n] = byte;
      static_cast<void>(from_model(damaged));
    }
  }
}

}  // namespace
}  // namespace bp::text
