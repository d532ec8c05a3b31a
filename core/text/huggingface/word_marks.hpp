#pragma once
// U+2581, which stands for a space in the tokens of SentencePiece's kind of vocabularies.

#include <algorithm>
#include <string_view>

namespace bp::text::huggingface {

inline constexpr std::string_view kSpaceMark = "\xE2\x96\x81";

[[nodiscard]] inline bool has_mark_behind_text(std::string_view text) {
  const size_t first = text.find_first_not_of(kSpaceMark);  // any of its bytes
  for (size_t at = text.find(kSpaceMark, 1); at != std::string_view::npos;
       at = text.find(kSpaceMark, at + 1)) {
    if (first < at) return true;
  }
  return false;
}

// Bytes up to the mark behind the first word.
[[nodiscard]] inline size_t marked_word_size(std::string_view text) {
  size_t at = 0;
  while (text.substr(at).starts_with(kSpaceMark)) at += kSpaceMark.size();
  return std::min(text.find(kSpaceMark, at), text.size());
}

}  // namespace bp::text::huggingface
