#pragma once
// Ids to text as they come. Every piece of text given out is whole UTF-8 characters.

#include <cstdint>
#include <string>
#include <string_view>

#include "core/text/tokenizer.hpp"

namespace bp::text {

// One stream; not thread-safe. The tokenizer must outlive it.
class Detokenizer {
 public:
  explicit Detokenizer(const Tokenizer& tokenizer, DecodeOptions options = {});

  // Appends to `text` what the token completes. The last bytes of a character that later tokens may
  // still complete are held back; bytes that cannot become a character are U+FFFD. show: a control
  // token too, whatever the options say.
  void append(int32_t id, std::string& text, bool show = false);
  [[nodiscard]] std::string append(int32_t id);

  // Ends the stream: a character still incomplete is U+FFFD. The next id begins a new text.
  void flush(std::string& text);
  [[nodiscard]] std::string flush();

  [[nodiscard]] bool has_incomplete_character() const { return !held_back_.empty(); }

 private:
  void append_bytes(std::string_view bytes, std::string& text);

  const Tokenizer& tokenizer_;
  DecodeOptions options_;
  bool drops_space_;       // the next bytes may begin with the space that encode added
  std::string held_back_;  // at most 3 bytes: the beginning of a character
};

}  // namespace bp::text
