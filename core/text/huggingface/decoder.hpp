#pragma once
// The decoder of tokenizer.json: what a token adds to the text.

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "core/text/huggingface/pattern.hpp"
#include "core/text/vocabulary.hpp"

namespace bp::text::huggingface {

class Decoder {
 public:
  // Null: tokens are words with a space between.
  static Result<Decoder> parse(const nlohmann::json* decoder);

  [[nodiscard]] std::string render(std::string_view token, TokenType type) const;
  // Whether the first token of a text gives up a space at its beginning.
  [[nodiscard]] bool drops_leading_space() const { return drops_leading_space_; }

 private:
  struct Replacement {
    Pattern pattern;
    std::string content;
  };
  Status add(const nlohmann::json& step);

  std::vector<Replacement> replacements_;
  std::string continuation_;  // WordPiece: tokens without it begin a word
  bool words_are_apart_ = false;
  bool is_byte_level_ = false;
  bool drops_leading_space_ = false;
};

}  // namespace bp::text::huggingface
