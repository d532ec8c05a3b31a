#pragma once
// Vocabularies small enough to reason about.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/text/byte_alphabet.hpp"
#include "core/text/tokenizer.hpp"

namespace bp::text::testing {

// One of each pattern.
inline constexpr const char* kPreTokenizerKinds[] = {
    "gpt-2",    "smollm",  "llama-bpe",    "minicpm5",       "jais-2",      "qwen2",    "qwen35",
    "ufakzeka", "laguna",  "seed-coder",   "exaone-moe",     "gpt-4o",      "tiny_aya", "tekken",
    "youtu",    "kimi-k2", "deepseek-llm", "deepseek-coder", "deepseek-v3", "spark2_5", "afmoe",
    "superbpe", "falcon",  "bloom",        "viking",         "chameleon"};

inline void add_token(Vocabulary& v, std::string_view text, TokenType type = TokenType::kNormal,
                      float score = 0) {
  v.tokens.push_back(text);
  v.types.push_back(type);
  if (v.model == "llama") v.scores.push_back(score);
}

// A byte in the alphabet of byte-level BPE.
inline std::string alphabet_text(uint8_t byte) {
  for (char32_t c = 0; c < kAlphabetEnd; ++c) {
    if (kByteOfCharacter[c] == byte) {
      std::string text;
      append_utf8(c, text);
      return text;
    }
  }
  return {};
}

// Ids 0 to 255 are the bytes; then the outcomes of the merges; then <|start|> (control), <|im_end|>
// (control, EOS) and <user> (user-defined).
inline Vocabulary byte_vocabulary(const std::vector<std::string>& merges,
                                  std::string pre = "gpt-2") {
  Vocabulary v;
  v.model = "gpt2";
  v.pre = std::move(pre);
  for (const std::string& merge : merges) v.merges.push_back(merge);
  for (int byte = 0; byte < 256; ++byte) add_token(v, alphabet_text(static_cast<uint8_t>(byte)));
  for (std::string text : merges) {
    text.erase(text.find(' '), 1);
    add_token(v, text);
  }
  add_token(v, "<|start|>", TokenType::kControl);
  add_token(v, "<|im_end|>", TokenType::kControl);
  add_token(v, "<user>", TokenType::kUserDefined);
  v.bos = v.n_tokens() - 3;
  v.eos = v.n_tokens() - 2;
  find_end_of_generation(v);
  return v;
}

// <unk> <s> </s>, the 256 byte tokens (ids 3 to 258), then the given pieces, better ones first.
inline Vocabulary sentencepiece_vocabulary(const std::vector<std::string>& pieces) {
  Vocabulary v;
  v.model = "llama";
  v.add_bos = true;
  v.add_space_prefix = true;
  add_token(v, "<unk>", TokenType::kUnknown);
  add_token(v, "<s>", TokenType::kControl);
  add_token(v, "</s>", TokenType::kControl);
  for (int byte = 0; byte < 256; ++byte) {
    const char* digits = "0123456789ABCDEF";
    add_token(v, std::string("<0x") + digits[byte / 16] + digits[byte % 16] + ">",
              TokenType::kByte);
  }
  for (size_t i = 0; i < pieces.size(); ++i) {
    add_token(v, pieces[i], TokenType::kNormal, -static_cast<float>(i));
  }
  v.unk = 0;
  v.bos = 1;
  v.eos = 2;
  return v;
}

inline std::unique_ptr<Tokenizer> make_tokenizer(Vocabulary vocabulary) {
  auto tokenizer = Tokenizer::create(std::move(vocabulary));
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  return tokenizer.ok() ? std::move(tokenizer).value() : nullptr;
}

// The texts of the ids of a text, without BOS and the like.
inline std::vector<std::string> pieces_of(const Tokenizer& tokenizer, std::string_view text,
                                          bool parse_special = true) {
  std::vector<std::string> pieces;
  for (const int32_t id : tokenizer.encode(text, {false, parse_special})) {
    pieces.emplace_back(tokenizer.token_bytes(id, true));
  }
  return pieces;
}

}  // namespace bp::text::testing
