#pragma once
// Text to token ids and back. A tokenizer never changes after its creation. [any-thread]

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backplane/status.hpp"
#include "core/text/special_tokens.hpp"
#include "core/text/vocabulary.hpp"

namespace bp::text {

struct EncodeOptions {
  bool add_special = true;    // BOS, EOS and the like, as the vocabulary says
  bool parse_special = true;  // the texts of control tokens become their ids
  // Ascending offsets at which no control token begins, whatever stands there.
  std::span<const size_t> plain_at = {};
};

struct DecodeOptions {
  bool special = false;  // render control tokens as their texts
  bool at_start = true;  // the ids begin a text: drop the space that encode puts before it
};

class Tokenizer {
 public:
  static Result<std::unique_ptr<Tokenizer>> create(Vocabulary vocabulary);

  virtual ~Tokenizer() = default;
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  [[nodiscard]] std::vector<int32_t> encode(std::string_view text,
                                            EncodeOptions options = {}) const;

  // Ascending offsets at which the text of a control token begins, be it cut off by the text's end.
  [[nodiscard]] std::vector<size_t> control_texts(std::string_view text) const;

  // The bytes that a token adds to the text, which may be part of a character. Empty for an id
  // outside the vocabulary and, unless `special`, for a control token.
  [[nodiscard]] std::string_view token_bytes(int32_t id, bool special) const;

  // Valid UTF-8: bytes that form no character become U+FFFD.
  [[nodiscard]] std::string decode(std::span<const int32_t> ids, DecodeOptions options = {}) const;

  // Control and unknown tokens: no part of the text.
  [[nodiscard]] bool is_control(int32_t id) const;

  // Control, unknown and user-defined tokens: matched as a whole in a text.
  [[nodiscard]] bool is_special(int32_t id) const;

  // Whether encode puts a space before a text, which decode takes away again.
  [[nodiscard]] bool adds_leading_space() const { return adds_leading_space_; }
  // Likewise before a text behind a special token.
  [[nodiscard]] bool adds_space_behind_special() const { return adds_space_behind_special_; }

  // What encode puts before every text.
  [[nodiscard]] std::span<const int32_t> prefix() const { return prefix_; }

  // Without its merges, which only the creation needs.
  [[nodiscard]] const Vocabulary& vocabulary() const { return vocabulary_; }

 protected:
  struct Parts {
    Vocabulary vocabulary;
    SpecialTokens special;
    TextList token_bytes;  // by id
    bool adds_leading_space = false;
    bool adds_space_behind_special = false;
  };
  explicit Tokenizer(Parts parts);

  struct TextPlace {
    bool at_start;       // of the whole text
    bool after_special;  // at_start, or behind a special token
  };
  // Appends the ids of a text without special tokens, shorter than 2^31 bytes.
  virtual void encode_text(std::string_view text, TextPlace place,
                           std::vector<int32_t>& ids) const = 0;

  [[nodiscard]] const TextList& all_token_bytes() const { return token_bytes_; }

 private:
  Vocabulary vocabulary_;
  SpecialTokens special_;
  TextList token_bytes_;  // by id
  bool adds_leading_space_;
  bool adds_space_behind_special_;
  std::vector<int32_t> prefix_;
  std::vector<int32_t> suffix_;
};

}  // namespace bp::text
