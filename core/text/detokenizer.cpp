#include "core/text/detokenizer.hpp"

#include "core/text/utf8.hpp"

namespace bp::text {

Detokenizer::Detokenizer(const Tokenizer& tokenizer, DecodeOptions options)
    : tokenizer_(tokenizer),
      options_(options),
      drops_space_(options.at_start && tokenizer.adds_leading_space()) {}

void Detokenizer::append(int32_t id, std::string& text, bool show) {
  std::string_view bytes = tokenizer_.token_bytes(id, options_.special || show);
  if (bytes.empty()) return;
  if (tokenizer_.is_special(id)) {
    append_bytes(bytes, text);
    drops_space_ = tokenizer_.adds_space_behind_special();
    return;
  }
  if (drops_space_ && bytes.front() == ' ') bytes.remove_prefix(1);
  drops_space_ = false;
  append_bytes(bytes, text);
}

std::string Detokenizer::append(int32_t id) {
  std::string text;
  append(id, text);
  return text;
}

void Detokenizer::append_bytes(std::string_view bytes, std::string& text) {
  std::string joined;
  if (!held_back_.empty()) {
    joined = held_back_ + std::string(bytes);
    bytes = joined;
    held_back_.clear();
  }
  const char* p = bytes.data();
  const char* const end = p + bytes.size();
  while (p < end) {
    const Utf8Char c = decode_utf8(p, end);
    if (c.form == Utf8Form::kIncomplete) {
      held_back_.assign(p, end);
      return;
    }
    text.append(c.form == Utf8Form::kValid ? std::string_view(p, c.size) : kReplacementUtf8);
    p += c.size;
  }
}

void Detokenizer::flush(std::string& text) {
  if (!held_back_.empty()) text += kReplacementUtf8;
  held_back_.clear();
  drops_space_ = options_.at_start && tokenizer_.adds_leading_space();
}

std::string Detokenizer::flush() {
  std::string text;
  flush(text);
  return text;
}

}  // namespace bp::text
