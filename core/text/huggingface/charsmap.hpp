#pragma once
// The compiled normalisation rules of SentencePiece models: a double-array trie over UTF-8 from
// texts to their replacements.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "backplane/status.hpp"

namespace bp::text::huggingface {

class Charsmap {
 public:
  static constexpr size_t kMaxTextBytes = 256;  // of a rule; longer ones never match

  // u32 bytes of the trie, the trie, replacements each ended by a NUL.
  static Result<Charsmap> parse(std::string bytes);

  // As SentencePiece does: at each place the longest text with a rule is replaced. Once
  // the outcome has some max_bytes, the rest stays as it is.
  [[nodiscard]] std::string apply(std::string_view text, size_t max_bytes) const;
  // As the tokenizers package does: a grapheme cluster of less than six bytes that begins with a
  // text with a rule is replaced, all of it, by the shortest such text's rule; of others each
  // character is.
  [[nodiscard]] std::string apply_to_graphemes(std::string_view text, size_t max_bytes) const;

 private:
  struct Match {
    size_t size;  // bytes; 0: none
    std::string_view replacement;
  };
  // Calls each(match) for the beginnings of a text that have rules, the shortest first, until it
  // returns false.
  template <class Each>
  void for_each_match(std::string_view text, const Each& each) const;
  [[nodiscard]] Match longest_match(std::string_view text) const;
  [[nodiscard]] Match shortest_match(std::string_view text) const;

  std::vector<uint32_t> trie_;
  std::string replacements_;
};

Result<std::string> decode_base64(std::string_view text);

}  // namespace bp::text::huggingface
