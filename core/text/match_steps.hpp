#pragma once
// Parts that split patterns have in common.

#include <cstddef>

#include "core/text/char_classes.hpp"

namespace bp::text::match_steps {

inline bool is_newline(char c) {
  return c == '\n' || c == '\r';
}

inline const char* skip_newlines(const char* p, const char* end) {
  while (p < end && is_newline(*p)) ++p;
  return p;
}

inline char ascii_lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
}

// 's|'t|'re|'ve|'m|'ll|'d at p, which is an apostrophe: the match's end, or p.
template <bool ignore_case>
const char* match_contraction(const char* p, const char* end) {
  const auto at = [&](std::ptrdiff_t i) {
    if (end - p <= i) return '\0';
    return ignore_case ? ascii_lower(p[i]) : p[i];
  };
  switch (at(1)) {
    case 's':
    case 't':
    case 'm':
    case 'd':
      return p + 2;
    case 'r':
    case 'v':
      return at(2) == 'e' ? p + 3 : p;
    case 'l':
      return at(2) == 'l' ? p + 3 : p;
    default:
      // The other character that equals an s when case is ignored: U+017F.
      return ignore_case && at(1) == '\xC5' && at(2) == '\xBF' ? p + 3 : p;
  }
}

// \s+(?!\S)|\s+ at p, which is white space: the run, but for the last character when text follows.
inline const char* match_spaces(const CharClasses& classes, const char* p, const char* end) {
  const char* last = p;
  const char* q = p;
  while (q < end) {
    const ClassifiedChar c = classes.at(q, end);
    if ((c.classes & char_class::kSpace) == 0) break;
    last = q;
    q += c.size;
  }
  return q == end || last == p ? q : last;
}

// \s*[\r\n]+ at p, which is white space: its end, or p.
inline const char* match_through_newline(const CharClasses& classes, const char* p,
                                         const char* end) {
  const char* q = classes.skip<true>(p, end, char_class::kSpace);
  while (q > p && !is_newline(q[-1])) --q;
  return q;
}

// \s*[\r\n]+|\s+(?!\S)|\s+ at p, which is white space.
inline const char* match_spaces_to_newline(const CharClasses& classes, const char* p,
                                           const char* end) {
  const char* q = match_through_newline(classes, p, end);
  return q > p ? q : match_spaces(classes, p, end);
}

// \p{N}{1,max} at p, which is a number.
inline const char* match_numbers(const CharClasses& classes, const char* p, const char* end,
                                 int max) {
  for (int i = 0; i < max && p < end; ++i) {
    const ClassifiedChar c = classes.at(p, end);
    if ((c.classes & char_class::kNumber) == 0) break;
    p += c.size;
  }
  return p;
}

}  // namespace bp::text::match_steps
