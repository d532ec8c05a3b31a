#include "core/text/pre_tokenizer.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <vector>

namespace bp::text {
namespace {

using namespace char_class;

constexpr uint8_t kWord = kLetter | kNumber;
constexpr uint8_t kWordOrSpace = kWord | kSpace;

bool is_newline(char c) {
  return c == '\n' || c == '\r';
}

const char* skip_newlines(const char* p, const char* end) {
  while (p < end && is_newline(*p)) ++p;
  return p;
}

char ascii_lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
}

// 's|'t|'re|'ve|'m|'ll|'d at p, which is an apostrophe: the match's end, or p.
template <bool ignore_case>
const char* match_contraction(const char* p, const char* end) {
  const auto at = [&](ptrdiff_t i) {
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
const char* match_spaces(const CharClasses& classes, const char* p, const char* end) {
  const char* last = p;
  const char* q = p;
  while (q < end) {
    const ClassifiedChar c = classes.at(q, end);
    if ((c.classes & kSpace) == 0) break;
    last = q;
    q += c.size;
  }
  return q == end || last == p ? q : last;
}

// \s*[\r\n]+|\s+(?!\S)|\s+ at p, which is white space.
const char* match_spaces_to_newline(const CharClasses& classes, const char* p, const char* end) {
  const char* q = classes.skip<true>(p, end, kSpace);
  while (q > p && !is_newline(q[-1])) --q;
  return q > p ? q : match_spaces(classes, p, end);
}

// 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
PieceMatch find_gpt2(const CharClasses& classes, const char* p, const char* end) {
  if (*p == '\'') {
    if (const char* q = match_contraction<false>(p, end); q != p) return {p, q};
  }
  const char* body = *p == ' ' && p + 1 < end ? p + 1 : p;
  const uint8_t first = classes.at(body, end).classes;
  if (first & kLetter) return {p, classes.skip<true>(body, end, kLetter)};
  if (first & kNumber) return {p, classes.skip<true>(body, end, kNumber)};
  if (first & kSpace) return {p, match_spaces(classes, p, end)};
  return {p, classes.skip<false>(body, end, kWordOrSpace)};
}

// (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,max_digits}|
//  ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
template <int max_digits>
PieceMatch find_tiktoken(const CharClasses& classes, const char* p, const char* end) {
  if (*p == '\'') {
    if (const char* q = match_contraction<true>(p, end); q != p) return {p, q};
  }
  const ClassifiedChar first = classes.at(p, end);
  const char* second = p + first.size;
  if (first.classes & kLetter) return {p, classes.skip<true>(second, end, kLetter)};
  if (first.classes & kNumber) {
    const char* q = second;
    for (int i = 1; i < max_digits && q < end; ++i) {
      const ClassifiedChar c = classes.at(q, end);
      if ((c.classes & kNumber) == 0) break;
      q += c.size;
    }
    return {p, q};
  }
  const uint8_t next = second < end ? classes.at(second, end).classes : uint8_t{kSpace};
  if ((next & kLetter) && !is_newline(*p)) {
    return {p, classes.skip<true>(second, end, kLetter)};
  }
  const bool space_before_symbol = *p == ' ' && (next & kWordOrSpace) == 0;
  if (space_before_symbol || (first.classes & kSpace) == 0) {
    return {p, skip_newlines(classes.skip<false>(second, end, kWordOrSpace), end)};
  }
  return {p, match_spaces_to_newline(classes, p, end)};
}

// \p{N}
PieceMatch find_number_char(const CharClasses& classes, const char* p, const char* end) {
  const char* q = classes.skip<false>(p, end, kNumber);
  return {q, q < end ? q + classes.at(q, end).size : end};
}

// [\r\n]
PieceMatch find_newline_char(const CharClasses&, const char* p, const char* end) {
  const char* q = std::find_if(p, end, is_newline);
  return {q, q < end ? q + 1 : end};
}

// \s?[class]+
template <uint8_t char_class>
PieceMatch find_spaced_run(const CharClasses& classes, const char* p, const char* end) {
  const char* begin = p;
  while (p < end) {
    const ClassifiedChar c = classes.at(p, end);
    if (c.classes & char_class) return {begin, classes.skip<true>(p, end, char_class)};
    p += c.size;
    begin = c.classes & kSpace ? p - c.size : p;
  }
  return {end, end};
}

bool is_cjk_or_hangul(char32_t c) {
  return (c >= 0x800 && c <= 0x9FA5) || (c >= 0xAC00 && c <= 0xD7FF);
}

// [一-龥ࠀ-一가-퟿]+
PieceMatch find_cjk_run(const CharClasses&, const char* p, const char* end) {
  const auto size_of_match = [&](const char* q) -> uint32_t {
    const Utf8Char c = decode_utf8(q, end);
    return c.form == Utf8Form::kValid && is_cjk_or_hangul(c.value) ? c.size : 0;
  };
  // Only lead bytes of three-byte characters can begin a match.
  while (p < end && (static_cast<uint8_t>(*p) < 0xE0 || size_of_match(p) == 0)) ++p;
  const char* q = p;
  while (q < end) {
    const uint32_t size = size_of_match(q);
    if (size == 0) break;
    q += size;
  }
  return {p, q};
}

constexpr PieceFinder kGpt2[] = {find_gpt2};
constexpr PieceFinder kLlama3[] = {find_tiktoken<3>};
constexpr PieceFinder kQwen2[] = {find_tiktoken<1>};
constexpr PieceFinder kDigitsThenGpt2[] = {find_number_char, find_gpt2};
constexpr PieceFinder kDeepseekCoder[] = {find_newline_char, find_spaced_run<kLetter>,
                                          find_spaced_run<kPunctuation>, find_cjk_run,
                                          find_number_char};

struct NamedPreTokenizer {
  std::string_view name;
  std::span<const PieceFinder> passes;
  bool prefers_whole_pieces = false;
};

// Names that share a row's passes were published with equal patterns.
constexpr NamedPreTokenizer kPreTokenizers[] = {
    {"default", kGpt2},
    {"gpt-2", kGpt2},
    {"phi-2", kGpt2},
    {"roberta-bpe", kGpt2},
    {"llama3", kLlama3, true},
    {"llama-v3", kLlama3, true},
    {"llama-bpe", kLlama3, true},
    {"dbrx", kLlama3},
    {"smaug-bpe", kLlama3},
    {"qwen2", kQwen2},
    {"deepseek-r1-qwen", kQwen2},
    {"stablelm2", kQwen2},
    {"megrez", kQwen2},
    {"smollm", kDigitsThenGpt2},
    {"starcoder", kDigitsThenGpt2},
    {"refact", kDigitsThenGpt2},
    {"command-r", kDigitsThenGpt2},
    {"deepseek-coder", kDeepseekCoder},
};

struct KnownRegex {
  std::string_view regex;
  PieceFinder finder;
};

// As tokenizer.json files write them.
constexpr KnownRegex kRegexes[] = {
    {R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)", find_gpt2},
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     find_tiktoken<3>},
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     find_tiktoken<1>},
    {R"(\p{N})", find_number_char},
    {R"([\r\n])", find_newline_char},
};

}  // namespace

PieceFinder piece_finder_of(std::string_view regex) {
  for (const KnownRegex& known : kRegexes) {
    if (known.regex == regex) return known.finder;
  }
  return nullptr;
}

Result<PreTokenizer> PreTokenizer::create(std::string_view name) {
  if (name.empty()) name = "default";
  for (const NamedPreTokenizer& known : kPreTokenizers) {
    if (known.name != name) continue;
    return of({known.passes.begin(), known.passes.end()}, known.prefers_whole_pieces);
  }
  std::vector<std::string_view> names;
  for (const NamedPreTokenizer& known : kPreTokenizers) names.push_back(known.name);
  return unsupported(
      fmt::format("tokenizer.ggml.pre is \"{}\"; known are {}", name, fmt::join(names, ", ")));
}

}  // namespace bp::text
