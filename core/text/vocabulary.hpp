#pragma once
// The tokenizer part of a model file, as plain data.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backplane/metadata.hpp"
#include "backplane/status.hpp"
#include "core/text/text_list.hpp"

namespace bp::text {

inline constexpr int32_t kNoToken = -1;

// Numbers of GGUF's tokenizer.ggml.token_type.
enum class TokenType : uint8_t {
  kUndefined = 0,
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,      // matched only where special tokens may be parsed; not rendered as text
  kUserDefined = 4,  // matched wherever it stands in the text
  kUnused = 5,
  kByte = 6,  // <0xHH>
};

// Control and unknown tokens: no part of the text.
[[nodiscard]] constexpr bool is_control_type(TokenType type) {
  return type == TokenType::kControl || type == TokenType::kUnknown;
}

// Tokens that stand for their text as it is, and are found in a text before all else.
[[nodiscard]] constexpr bool is_matched_whole(TokenType type) {
  return is_control_type(type) || type == TokenType::kUserDefined;
}

namespace huggingface {
struct Pipeline;
}

// How far a token that is matched whole reaches beyond its text.
struct AddedToken {
  int32_t id = kNoToken;
  bool takes_space_before = false;
  bool takes_space_behind = false;
  bool is_word = false;             // only where no letter, digit or underscore touches it
  bool matches_normalized = false;  // looked for in the normalised text
};

// The keys of GGUF files by which they come and go, of this project's own: arrays of ids.
struct AddedTokenFlag {
  const char* key;
  bool AddedToken::*flag;
};
inline constexpr AddedTokenFlag kAddedTokenFlags[] = {
    {"tokenizer.backplane.lstrip_ids", &AddedToken::takes_space_before},
    {"tokenizer.backplane.rstrip_ids", &AddedToken::takes_space_behind},
    {"tokenizer.backplane.single_word_ids", &AddedToken::is_word},
};

struct Vocabulary {
  std::string model;  // "llama", "gpt2", "bert", "t5" and others; of tokenizer.json its type
  std::string pre;    // pre-tokenizer of "gpt2"; empty when the file names none
  TextList tokens;    // by id
  std::vector<float> scores;     // by id, or empty
  std::vector<TokenType> types;  // by id, or empty: all normal
  TextList merges;               // "left right", best first

  int32_t bos = kNoToken;
  int32_t eos = kNoToken;
  int32_t eot = kNoToken;
  int32_t eom = kNoToken;
  int32_t unk = kNoToken;
  int32_t sep = kNoToken;
  int32_t pad = kNoToken;
  int32_t cls = kNoToken;
  int32_t mask = kNoToken;

  bool add_bos = false;
  bool add_eos = false;
  bool add_sep = false;
  bool add_space_prefix = false;
  bool remove_extra_whitespaces = false;
  bool lowercase = true;      // of "bert"
  bool strip_accents = true;  // of "bert"

  std::string charsmap;  // SentencePiece's compiled rules of normalisation: "llama" and "t5"

  std::vector<int32_t> prefix;  // put before every text in place of what add_bos says
  std::vector<int32_t> suffix;  // put behind in place of what add_sep and add_eos say

  std::vector<AddedToken> added;  // tokens that are more than their text, by ascending id
  std::shared_ptr<const huggingface::Pipeline> huggingface;  // of tokenizer.json, or null

  std::vector<int32_t> end_of_generation;  // ascending

  std::string chat_template;  // Jinja source; empty when the file has none
  std::string tool_template;  // that for conversations with tools, where there is another

  [[nodiscard]] int32_t n_tokens() const { return static_cast<int32_t>(tokens.size()); }
  [[nodiscard]] bool contains(int32_t id) const { return id >= 0 && id < n_tokens(); }
  [[nodiscard]] TokenType type(int32_t id) const {
    return types.empty() ? TokenType::kNormal : types[static_cast<size_t>(id)];
  }
  [[nodiscard]] bool is_end_of_generation(int32_t id) const;
};

// By id, as files give them in any order.
using AddedTokens = std::map<int32_t, AddedToken>;
void set_added(const AddedTokens& tokens, Vocabulary& vocabulary);

// Reads tokenizer.* keys, fills in what the model's kind implies, and checks the outcome.
Result<Vocabulary> read_vocabulary(MetadataView metadata);

// Array lengths, special ids and byte tokens. Names the key at fault.
Status check_vocabulary(const Vocabulary& vocabulary);

// Whether models end an answer by a token of that text, be it named as such or not.
[[nodiscard]] bool is_end_text(std::string_view text);

// Fills end_of_generation from eos, eot, eom and the well-known texts of such tokens, and makes
// every member of it a control token, so that it never reaches the reader as text.
void find_end_of_generation(Vocabulary& vocabulary);
// Adds further ids to it. Those of ordinary text end an answer where they come, and are split and
// shown as any other.
void add_end_of_generation(Vocabulary& vocabulary, const std::vector<int32_t>& ids);

// The byte that the text of a byte token stands for: "<0x0A>" is 10.
[[nodiscard]] std::optional<uint8_t> parse_byte_token(std::string_view text);

}  // namespace bp::text
