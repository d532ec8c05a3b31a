#pragma once
// U+2581, which stands for a space in the tokens of SentencePiece's kind of vocabularies.

#include <algorithm>
#include <string_view>

namespace bp::text::huggingface {

inline constexpr std::string_view kSpaceMark = "\xE2\x96\x81";

// Bytes of the marks that a text begins with.
[[nodiscard]] inline size_t leading_marks_size(std::string_view text) {
  size_t at = 0;
  while (text.substr(at).starts_with(kSpaceMark)) at += kSpaceMark.size();
  return at;
}

[[nodiscard]] inline bool has_mark_behind_text(std::string_view text) {
  return text.find(kSpaceMark, leading_marks_size(text)) != std::string_view::npos;
}

// Bytes up to the mark behind the first word.
[[nodiscard]] inline size_t marked_word_size(std::string_view text) {
  return std::min(text.find(kSpaceMark, leading_marks_size(text)), text.size());
}

}  // namespace bp::text::huggingface
