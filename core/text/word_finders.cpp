// Patterns that cover any text: words, numbers, symbols and white space.

#include <algorithm>

#include "core/text/match_steps.hpp"
#include "core/text/piece_finders.hpp"

namespace bp::text {
namespace {

using namespace char_class;
using namespace match_steps;

constexpr Mask kLetterOrNumber = kLetter | kNumber;
constexpr Mask kLetterNumberOrSpace = kLetterOrNumber | kSpace;

enum class Tail { kNone, kNewline, kNewlines, kNewlinesAndSlashes };

// What follows a run of symbols within the same piece.
template <Tail tail>
const char* skip_tail(const char* p, const char* end) {
  if (tail == Tail::kNewlines) return skip_newlines(p, end);
  if (tail == Tail::kNewline) return p < end && is_newline(*p) ? p + 1 : p;
  if (tail == Tail::kNewlinesAndSlashes) {
    while (p < end && (is_newline(*p) || *p == '/')) ++p;
  }
  return p;
}

// \s{512}(?!\S)|...|\s{4}(?!\S)|\s{1,2}(?!\S)|\s at p, which is white space.
const char* match_halving_spaces(const CharClasses& classes, const char* p, const char* end) {
  constexpr size_t kLongest = 512;
  size_t n = 0;  // characters of the run, and no more than one beyond the longest piece
  bool is_last = true;
  for (const char* q = p; q < end;) {
    const ClassifiedChar c = classes.at(q, end);
    is_last = (c.classes & kSpace) != 0;
    if (!is_last || n > kLongest) break;
    ++n;
    q += c.size;
  }
  // (?!\S) holds before white space and at the end of the text.
  const size_t n_free = is_last || n > kLongest ? n : n - 1;
  size_t take = kLongest;
  while (take > n_free) take /= 2;
  for (take = std::max<size_t>(take, 1); take > 0; --take) p += classes.at(p, end).size;
  return p;
}

// Runs of as many characters are pieces of find_long_spaces.
constexpr size_t kLongRun = 1024;

// match_through_newline, in a text where a long run is all there is: one that ends in its only
// newlines, or has none.
const char* match_near_newline(const CharClasses& classes, const char* p, const char* end) {
  const char* q = p;
  for (size_t n = 0; q < end && n <= kLongRun; ++n) {
    const ClassifiedChar c = classes.at(q, end);
    if ((c.classes & kSpace) == 0) return match_through_newline(classes, p, q);
    q += c.size;
  }
  if (q == end) return match_through_newline(classes, p, end);
  return is_newline(end[-1]) ? end : p;
}

struct WordRules {
  int max_numbers = 1;
  Tail tail = Tail::kNewlines;
  bool has_contractions = true;
  bool joins_marks = false;   // [\p{L}\p{M}]+ are words, and marks no symbols
  bool spans_spaces = false;  // words go on behind a single space
  bool halves_spaces = false;
};

// (?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+ at p, which is a letter.
const char* skip_phrase(const CharClasses& classes, const char* p, const char* end) {
  const auto is_letter = [&](const char* q) {
    return q < end && (classes.at(q, end).classes & kLetter) != 0;
  };
  for (;;) {
    p = classes.skip<true>(p, end, kLetter);
    p = classes.skip<true>(p, end, kMark);
    if (is_letter(p)) continue;
    if (p == end || *p != ' ' || !is_letter(p + 1)) return p;
    ++p;
  }
}

template <WordRules rules>
PieceMatch find_words(const CharClasses& classes, const char* p, const char* end) {
  constexpr Mask kWord = rules.joins_marks ? kLetter | kMark : kLetter;
  constexpr Mask kNoSymbol = kWord | kNumber | kSpace;
  const auto skip_word = [&](const char* q) {
    return rules.spans_spaces ? skip_phrase(classes, q, end) : classes.skip<true>(q, end, kWord);
  };
  if (rules.has_contractions && *p == '\'') {
    if (const char* q = match_contraction<true>(p, end); q != p) return {p, q};
  }
  const ClassifiedChar first = classes.at(p, end);
  const char* second = p + first.size;
  if (first.classes & kWord) return {p, skip_word(p)};
  if (first.classes & kNumber) return {p, match_numbers(classes, p, end, rules.max_numbers)};
  const Mask next = second < end ? classes.at(second, end).classes : Mask{kSpace};
  if ((next & kWord) && !is_newline(*p)) return {p, skip_word(second)};
  const bool space_before_symbol = *p == ' ' && (next & kNoSymbol) == 0;
  if (space_before_symbol || (first.classes & kSpace) == 0) {
    return {p, skip_tail<rules.tail>(classes.skip<false>(second, end, kNoSymbol), end)};
  }
  if (!rules.halves_spaces) return {p, match_spaces_to_newline(classes, p, end)};
  const char* q = match_near_newline(classes, p, end);
  return {p, q > p ? q : match_halving_spaces(classes, p, end)};
}

struct CaseRules {
  int max_numbers = 3;
  Tail tail = Tail::kNewlinesAndSlashes;
  bool has_contractions = true;
  bool parts_han = false;
};

// A run of letters and marks that changes from upper to lower case at most once.
template <CaseRules rules>
class CasedWord {
 public:
  CasedWord(const CharClasses& classes, const char* end) : classes_(classes), end_(end) {}

  // UPPER*LOWER+ at p: its end, or null.
  [[nodiscard]] const char* match_lower(const char* p) const {
    const char* last_uncased = nullptr;  // the end of what LOWER+ can take back from UPPER*
    while (p < end_) {
      const ClassifiedChar c = classes_.at(p, end_);
      if (!is_in(c, kUpperOrUncased)) break;
      p += c.size;
      if (c.classes & kLowerOrUncased) last_uncased = p;
    }
    const char* q = skip(p, kLowerOrUncased);
    return q > p ? q : last_uncased;
  }

  // UPPER+LOWER* at p where UPPER*LOWER+ is not: its end, or null.
  [[nodiscard]] const char* match_upper(const char* p) const {
    const char* q = skip(p, kUpperOrUncased);
    return q > p ? q : nullptr;
  }

 private:
  static bool is_in(const ClassifiedChar& c, Mask mask) {
    return (c.classes & mask) != 0 && !(rules.parts_han && (c.classes & kHan) != 0);
  }
  [[nodiscard]] const char* skip(const char* p, Mask mask) const {
    while (p < end_) {
      const ClassifiedChar c = classes_.at(p, end_);
      if (!is_in(c, mask)) break;
      p += c.size;
    }
    return p;
  }

  const CharClasses& classes_;
  const char* end_;
};

// Either of the two alternatives of words at p, where `first` stands: its end, or null.
template <CaseRules rules>
const char* match_cased(const CharClasses& classes, const ClassifiedChar& first, const char* p,
                        const char* end) {
  const CasedWord<rules> word(classes, end);
  const bool has_prefix = (first.classes & kLetterOrNumber) == 0 && !is_newline(*p);
  const char* second = p + first.size;
  const char* q = has_prefix ? word.match_lower(second) : nullptr;
  if (q == nullptr) q = word.match_lower(p);
  if (q == nullptr && has_prefix) q = word.match_upper(second);
  if (q == nullptr) q = word.match_upper(p);
  return q;
}

template <CaseRules rules>
PieceMatch find_cased(const CharClasses& classes, const char* p, const char* end) {
  const ClassifiedChar first = classes.at(p, end);
  if (rules.parts_han && (first.classes & kHan)) return {p, classes.skip<true>(p, end, kHan)};
  if (const char* q = match_cased<rules>(classes, first, p, end); q != nullptr) {
    const bool may_go_on = rules.has_contractions && q < end && *q == '\'';
    return {p, may_go_on ? match_contraction<true>(q, end) : q};
  }
  if (first.classes & kNumber) return {p, match_numbers(classes, p, end, rules.max_numbers)};
  const char* second = p + first.size;
  const Mask next = second < end ? classes.at(second, end).classes : Mask{kSpace};
  const bool space_before_symbol = *p == ' ' && (next & kLetterNumberOrSpace) == 0;
  if (space_before_symbol || (first.classes & kSpace) == 0) {
    const char* q = classes.skip<false>(second, end, kLetterNumberOrSpace);
    return {p, skip_tail<rules.tail>(q, end)};
  }
  return {p, match_spaces_to_newline(classes, p, end)};
}

bool is_ascii_letter(char c) {
  return ascii_lower(c) >= 'a' && ascii_lower(c) <= 'z';
}

bool is_ascii_symbol(char c) {
  return c > ' ' && c < '\x7F' && !is_ascii_letter(c) && !(c >= '0' && c <= '9');
}

// The match at p, or p.
template <bool has_single_newlines>
const char* match_deepseek(const CharClasses& classes, const char* p, const char* end) {
  constexpr Mask kWord = kLetter | kMark;
  constexpr Mask kSign = kPunctuation | kSymbol;
  if (is_ascii_symbol(*p) && end - p > 1 && is_ascii_letter(p[1])) {
    return std::find_if_not(p + 1, end, is_ascii_letter);
  }
  const ClassifiedChar first = classes.at(p, end);
  const char* second = p + first.size;
  const Mask next = second < end ? classes.at(second, end).classes : Mask{0};
  const bool has_prefix = (first.classes & (kLetter | kSign)) == 0 && !is_newline(*p);
  if (has_prefix && (next & kWord)) return classes.skip<true>(second, end, kWord);
  if (first.classes & kWord) return classes.skip<true>(p, end, kWord);
  if ((first.classes & kSign) || (*p == ' ' && (next & kSign))) {
    const char* q = classes.skip<true>(second, end, kSign);
    return has_single_newlines ? q : skip_newlines(q, end);
  }
  if ((first.classes & kSpace) == 0) return p;
  if (!has_single_newlines) return match_spaces_to_newline(classes, p, end);
  return is_newline(*p) ? second : match_spaces(classes, p, end);
}

template <bool has_single_newlines>
PieceMatch find_deepseek(const CharClasses& classes, const char* p, const char* end) {
  while (p < end) {
    const char* q = match_deepseek<has_single_newlines>(classes, p, end);
    if (q > p) return {p, q};
    p += classes.at(p, end).size;
  }
  return {end, end};
}

}  // namespace

PieceMatch find_gpt2(const CharClasses& classes, const char* p, const char* end) {
  if (*p == '\'') {
    if (const char* q = match_contraction<false>(p, end); q != p) return {p, q};
  }
  const char* body = *p == ' ' && p + 1 < end ? p + 1 : p;
  const Mask first = classes.at(body, end).classes;
  if (first & kLetter) return {p, classes.skip<true>(body, end, kLetter)};
  if (first & kNumber) return {p, classes.skip<true>(body, end, kNumber)};
  if (first & kSpace) return {p, match_spaces(classes, p, end)};
  return {p, classes.skip<false>(body, end, kLetterNumberOrSpace)};
}

PieceMatch find_llama3(const CharClasses& classes, const char* p, const char* end) {
  return find_words<WordRules{.max_numbers = 3}>(classes, p, end);
}

PieceMatch find_qwen2(const CharClasses& classes, const char* p, const char* end) {
  return find_words<WordRules{}>(classes, p, end);
}

PieceMatch find_qwen35(const CharClasses& classes, const char* p, const char* end) {
  return find_words<WordRules{.joins_marks = true}>(classes, p, end);
}

PieceMatch find_ufakzeka(const CharClasses& classes, const char* p, const char* end) {
  return find_words<WordRules{.has_contractions = false}>(classes, p, end);
}

PieceMatch find_seed_coder(const CharClasses& classes, const char* p, const char* end) {
  return find_words<WordRules{.tail = Tail::kNone}>(classes, p, end);
}

// Newlines behind a symbol are its own, and the last character before a text is the text's.
PieceMatch find_long_spaces(const CharClasses& classes, const char* from, const char* end) {
  bool behind_symbol = false;
  for (const char* p = from; p < end;) {
    const ClassifiedChar c = classes.at(p, end);
    if ((c.classes & kSpace) == 0) {
      behind_symbol = (c.classes & kLetterNumberOrSpace) == 0;
      p += c.size;
      continue;
    }
    if (behind_symbol) p = skip_newlines(p, end);
    behind_symbol = false;
    size_t n = 0;
    const char* q = p;
    for (; q < end && (classes.at(q, end).classes & kSpace) != 0; ++n) q += classes.at(q, end).size;
    if (n >= kLongRun) return {p, match_spaces_to_newline(classes, p, end)};
    p = q;
  }
  return {end, end};
}

PieceMatch find_jais2(const CharClasses& classes, const char* p, const char* end) {
  return find_words<WordRules{.max_numbers = 3, .halves_spaces = true}>(classes, p, end);
}

PieceMatch find_exaone_moe(const CharClasses& classes, const char* p, const char* end) {
  return find_words<WordRules{.tail = Tail::kNewline, .spans_spaces = true}>(classes, p, end);
}

PieceMatch find_gpt4o(const CharClasses& classes, const char* p, const char* end) {
  return find_cased<CaseRules{}>(classes, p, end);
}

PieceMatch find_tekken(const CharClasses& classes, const char* p, const char* end) {
  return find_cased<CaseRules{.max_numbers = 1, .has_contractions = false}>(classes, p, end);
}

PieceMatch find_youtu(const CharClasses& classes, const char* p, const char* end) {
  return find_cased<CaseRules{.max_numbers = 1}>(classes, p, end);
}

PieceMatch find_kimi(const CharClasses& classes, const char* p, const char* end) {
  return find_cased<CaseRules{.tail = Tail::kNewlines, .parts_han = true}>(classes, p, end);
}

PieceMatch find_deepseek3(const CharClasses& classes, const char* p, const char* end) {
  return find_deepseek<false>(classes, p, end);
}

PieceMatch find_spark(const CharClasses& classes, const char* p, const char* end) {
  return find_deepseek<true>(classes, p, end);
}

}  // namespace bp::text
