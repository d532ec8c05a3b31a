// Patterns that cut single runs out of a text: numbers, scripts, punctuation.

#include <algorithm>
#include <span>

#include "core/text/match_steps.hpp"
#include "core/text/piece_finders.hpp"

namespace bp::text {
namespace {

using namespace char_class;
using namespace match_steps;

// The first place with one of the classes.
const char* seek(const CharClasses& classes, const char* p, const char* end, Mask mask) {
  return classes.skip<false>(p, end, mask);
}

bool is_ascii_digit(char c) {
  return c >= '0' && c <= '9';
}

bool is_digit_at(const CharClasses& classes, const char* p, const char* end) {
  return p < end && (classes.at(p, end).classes & kDigit) != 0;
}

// Of what find_bounded_digits leaves, only the runs it found end in a digit.
bool ends_in_digit(const CharClasses& classes, const char* begin, const char* end) {
  const char* p = end - 1;
  while (p > begin && (static_cast<uint8_t>(*p) & 0xC0) == 0x80) --p;
  return is_digit_at(classes, p, end);
}

// \s?RUN+, where `measure` gives the size of a character of the run, or 0.
template <class Measure>
PieceMatch find_spaced(const CharClasses& classes, const char* p, const char* end,
                       const Measure& measure) {
  const char* begin = p;
  while (p < end) {
    if (uint32_t size = measure(p); size > 0) {
      for (; size > 0; size = p < end ? measure(p) : 0) p += size;
      return {begin, p};
    }
    const ClassifiedChar c = classes.at(p, end);
    p += c.size;
    begin = c.classes & kSpace ? p - c.size : p;
  }
  return {end, end};
}

template <Mask mask>
PieceMatch find_spaced_class(const CharClasses& classes, const char* from, const char* end) {
  return find_spaced(classes, from, end, [&](const char* p) -> uint32_t {
    const ClassifiedChar c = classes.at(p, end);
    return c.classes & mask ? c.size : 0;
  });
}

// Characters from `first` to `last`, in a run with those of equal group alone.
struct Range {
  char32_t first;
  char32_t last;
  uint8_t group = 1;
};

// 0: in none of the ranges, which are sorted.
uint8_t group_of(std::span<const Range> ranges, char32_t c) {
  const auto after = std::ranges::upper_bound(ranges, c, {}, &Range::first);
  if (after == ranges.begin()) return 0;
  const Range& range = *(after - 1);
  return c <= range.last ? range.group : 0;
}

struct Grouped {
  uint32_t size;
  uint8_t group;
};

Grouped grouped_at(std::span<const Range> ranges, const char* p, const char* end) {
  const Utf8Char c = decode_utf8(p, end);
  return {c.size, c.form == Utf8Form::kValid ? group_of(ranges, c.value) : uint8_t{0}};
}

PieceMatch find_ranges(std::span<const Range> ranges, const char* p, const char* end) {
  Grouped found{0, 0};
  for (; p < end; p += found.size) {
    found = grouped_at(ranges, p, end);
    if (found.group != 0) break;
  }
  const char* q = p;
  for (Grouped c = found; q < end; q += c.size) {
    c = grouped_at(ranges, q, end);
    if (c.group == 0 || c.group != found.group) break;
  }
  return {p, q};
}

constexpr Range kCjkAndHangul[] = {{0x800, 0x9FA5}, {0xAC00, 0xD7FF}};
constexpr Range kCjkAndKana[] = {{0x3040, 0x309F}, {0x30A0, 0x30FF}, {0x4E00, 0x9FA5}};
constexpr Range kUnspaced[] = {
    {0xE40, 0xE7F},   {0xE80, 0xEFF},   {0x1000, 0x109F}, {0x1100, 0x11FF}, {0x1780, 0x17FF},
    {0x2F00, 0x2FDF}, {0x3040, 0x30FF}, {0x3400, 0x4DBF}, {0x4E00, 0x9FFF}, {0xA9E0, 0xA9FF},
    {0xAA60, 0xAA7F}, {0xAC00, 0xD7AF}, {0xF900, 0xFAFF}, {0xFF65, 0xFF9F}};
// Hangul, punctuation, Bopomofo, then Chinese and Japanese.
constexpr Range kEastAsian[] = {{0x2014, 0x2014, 2}, {0x2018, 0x2019, 2}, {0x201C, 0x201D, 2},
                                {0x2026, 0x2026, 2}, {0x3001, 0x303F, 2}, {0x3040, 0x30FF, 4},
                                {0x3105, 0x312F, 3}, {0x3131, 0x318E, 1}, {0x4E00, 0x9FA5, 4},
                                {0xAC00, 0xD7A3, 1}, {0xFE30, 0xFE4F, 2}, {0xFF01, 0xFF01, 2},
                                {0xFF0C, 0xFF0C, 2}, {0xFF1A, 0xFF1B, 2}};
constexpr Range kWideSymbols[] = {{'!', '/'},       {':', '~'},       {0x2018, 0x201F},
                                  {0x3000, 0x3002}, {0xFF01, 0xFF0F}, {0xFF1A, 0xFF5E}};
constexpr Range kCasedLetters[] = {
    {'A', 'Z'},         {'a', 'z'},         {0xB5, 0xB5},       {0xC0, 0xD6},
    {0xD8, 0xF6},       {0xF8, 0x1BA},      {0x1BC, 0x1BF},     {0x1C4, 0x293},
    {0x295, 0x2AF},     {0x370, 0x373},     {0x376, 0x377},     {0x37B, 0x37D},
    {0x37F, 0x37F},     {0x386, 0x386},     {0x388, 0x38A},     {0x38C, 0x38C},
    {0x38E, 0x3A1},     {0x3A3, 0x3F5},     {0x3F7, 0x481},     {0x48A, 0x52F},
    {0x531, 0x556},     {0x10A0, 0x10C5},   {0x13A0, 0x13F5},   {0x13F8, 0x13FD},
    {0x1C90, 0x1CBA},   {0x1CBD, 0x1CBF},   {0x1D00, 0x1D2B},   {0x1D6B, 0x1D77},
    {0x1D79, 0x1D9A},   {0x1E00, 0x1F15},   {0x1F18, 0x1F1D},   {0x1F20, 0x1F45},
    {0x1F48, 0x1F4D},   {0x1F50, 0x1F57},   {0x1F59, 0x1F59},   {0x1F5B, 0x1F5B},
    {0x1F5D, 0x1F5D},   {0x1F5F, 0x1F7D},   {0x1F80, 0x1FB4},   {0x1FB6, 0x1FBC},
    {0x1FBE, 0x1FBE},   {0x1FC2, 0x1FC4},   {0x1FC6, 0x1FCC},   {0x1FD0, 0x1FD3},
    {0x1FD6, 0x1FDB},   {0x1FE0, 0x1FEC},   {0x1FF2, 0x1FF4},   {0x1FF6, 0x1FFC},
    {0x2102, 0x2102},   {0x2107, 0x2107},   {0x210A, 0x2113},   {0x2115, 0x2115},
    {0x2119, 0x211D},   {0x2124, 0x2124},   {0x2126, 0x2126},   {0x2128, 0x2128},
    {0x212A, 0x212D},   {0x212F, 0x2134},   {0x2139, 0x2139},   {0x213C, 0x213F},
    {0x2145, 0x2149},   {0x214E, 0x214E},   {0x2183, 0x2184},   {0x2C00, 0x2C7B},
    {0x2C7E, 0x2CE4},   {0x2CEB, 0x2CEE},   {0x2CF2, 0x2CF3},   {0xA640, 0xA66D},
    {0xA680, 0xA69B},   {0xA722, 0xA76F},   {0xA771, 0xA787},   {0xA78B, 0xA78E},
    {0xAB70, 0xABBF},   {0xFB00, 0xFB06},   {0xFB13, 0xFB17},   {0xFF21, 0xFF3A},
    {0xFF41, 0xFF5A},   {0x10400, 0x1044F}, {0x104B0, 0x104D3}, {0x104D8, 0x104FB},
    {0x10C80, 0x10CB2}, {0x10CC0, 0x10CF2}, {0x118A0, 0x118DF}, {0x1E900, 0x1E943}};

PieceMatch find_spaced_ranges(std::span<const Range> ranges, const CharClasses& classes,
                              const char* from, const char* end) {
  return find_spaced(classes, from, end, [&](const char* p) -> uint32_t {
    const Grouped c = grouped_at(ranges, p, end);
    return c.group != 0 ? c.size : 0;
  });
}

// What Rust calls ASCII punctuation counts as punctuation.
uint32_t size_of_punctuation(const CharClasses& classes, const char* p, const char* end) {
  const ClassifiedChar c = classes.at(p, end);
  const bool is_ascii_symbol = c.value < 0x80 && (c.classes & kSymbol) != 0;
  return is_ascii_symbol || (c.classes & kPunctuation) != 0 ? c.size : 0;
}

bool is_bloom_stop(const ClassifiedChar& c) {
  constexpr std::u32string_view kStops = U"(|.,!?…。，、।۔،)";
  return (c.classes & kSpace) != 0 || kStops.find(c.value) != std::u32string_view::npos;
}

const char* skip_bloom_word(const CharClasses& classes, const char* p, const char* end) {
  while (p < end) {
    const ClassifiedChar c = classes.at(p, end);
    if (is_bloom_stop(c)) break;
    p += c.size;
  }
  return p;
}

PieceMatch find_text(std::string_view text, const char* p, const char* end) {
  const char* q = std::search(p, end, text.begin(), text.end());
  return {q, q == end ? end : q + text.size()};
}

}  // namespace

PieceMatch find_bloom(const CharClasses& classes, const char* p, const char* end) {
  while (p < end) {
    const char* body = *p == ' ' && p + 1 < end ? p + 1 : p;
    const char* q = skip_bloom_word(classes, body, end);
    if (q > body) return {p, q};
    p += classes.at(p, end).size;
  }
  return {end, end};
}

PieceMatch find_number_char(const CharClasses& classes, const char* p, const char* end) {
  const char* q = seek(classes, p, end, kNumber);
  return {q, match_numbers(classes, q, end, 1)};
}

PieceMatch find_three_numbers(const CharClasses& classes, const char* p, const char* end) {
  const char* q = seek(classes, p, end, kNumber);
  return {q, match_numbers(classes, q, end, 3)};
}

PieceMatch find_numbers(const CharClasses& classes, const char* p, const char* end) {
  const char* q = seek(classes, p, end, kNumber);
  return {q, classes.skip<true>(q, end, kNumber)};
}

PieceMatch find_three_ascii_digits(const CharClasses&, const char* p, const char* end) {
  for (; end - p >= 3; ++p) {
    if (is_ascii_digit(p[0]) && is_ascii_digit(p[1]) && is_ascii_digit(p[2])) return {p, p + 3};
  }
  return {end, end};
}

PieceMatch find_alphabet_numbers(const CharClasses&, const char* p, const char* end) {
  const auto is_number = [](char c) {
    constexpr std::string_view kWrittenAsNumbers = "\xB2\xB3\xB9\xBC\xBD\xBE";
    return is_ascii_digit(c) || kWrittenAsNumbers.find(c) != std::string_view::npos;
  };
  const char* q = std::find_if(p, end, is_number);
  return {q, std::find_if_not(q, end, is_number)};
}

PieceMatch find_head_of_digits(const CharClasses& classes, const char* from, const char* end) {
  for (const char* p = from; p < end;) {
    p = seek(classes, p, end, kDigit);
    size_t n = 0;
    const char* q = p;
    for (; is_digit_at(classes, q, end); ++n) q += classes.at(q, end).size;
    // The whole threes begin at p only where p is cut already.
    const bool is_cut = p == from && n % 3 == 0;
    if (n < 3 || is_cut) {
      p = q;
      continue;
    }
    for (size_t i = 0; i < n % 3; ++i) p += classes.at(p, end).size;
    return {from, p};
  }
  return {from, end};
}

PieceMatch find_three_digits(const CharClasses& classes, const char* from, const char* end) {
  const char* p = from;
  for (int i = 0; i < 3; ++i) {
    if (!is_digit_at(classes, p, end)) return {from, end};
    p += classes.at(p, end).size;
  }
  return {from, is_digit_at(classes, p, end) ? p : end};
}

PieceMatch find_bounded_digits(const CharClasses& classes, const char* p, const char* end) {
  while (p < end) {
    p = seek(classes, p, end, kDigit);
    const char* q = classes.skip<true>(p, end, kDigit);
    if (q == end || (classes.at(q, end).classes & kWordCharacter) == 0) return {p, q};
    p = q;
  }
  return {end, end};
}

PieceMatch find_head_of_bounded(const CharClasses& classes, const char* from, const char* end) {
  return ends_in_digit(classes, from, end) ? find_head_of_digits(classes, from, end)
                                           : PieceMatch{end, end};
}

PieceMatch find_three_bounded(const CharClasses& classes, const char* from, const char* end) {
  return ends_in_digit(classes, from, end) ? find_three_digits(classes, from, end)
                                           : PieceMatch{end, end};
}

PieceMatch find_newline_char(const CharClasses&, const char* p, const char* end) {
  const char* q = std::find_if(p, end, is_newline);
  return {q, q < end ? q + 1 : end};
}

PieceMatch find_spaces(const CharClasses& classes, const char* p, const char* end) {
  const char* q = seek(classes, p, end, kSpace);
  return {q, classes.skip<true>(q, end, kSpace)};
}

PieceMatch find_line(const CharClasses&, const char* p, const char* end) {
  const bool is_break = *p == '\n';
  return {p, std::find_if(p, end, [&](char c) { return (c == '\n') != is_break; })};
}

PieceMatch find_last_spaces(const CharClasses& classes, const char* p, const char* end) {
  const char* last = p;  // the beginning of the run of white space before p
  while (p < end) {
    const ClassifiedChar c = classes.at(p, end);
    p += c.size;
    if ((c.classes & kSpace) == 0) last = p;
  }
  return {last, end};
}

PieceMatch find_spaced_letters(const CharClasses& classes, const char* p, const char* end) {
  return find_spaced_class<kLetter>(classes, p, end);
}

PieceMatch find_spaced_punctuation(const CharClasses& classes, const char* p, const char* end) {
  return find_spaced_class<kPunctuation>(classes, p, end);
}

PieceMatch find_punctuation(const CharClasses& classes, const char* p, const char* end) {
  while (p < end && size_of_punctuation(classes, p, end) == 0) p += classes.at(p, end).size;
  const char* q = p;
  while (q < end && size_of_punctuation(classes, q, end) > 0) q += classes.at(q, end).size;
  return {p, q};
}

PieceMatch find_punctuation_char(const CharClasses& classes, const char* p, const char* end) {
  while (p < end && size_of_punctuation(classes, p, end) == 0) p += classes.at(p, end).size;
  return {p, p < end ? p + size_of_punctuation(classes, p, end) : end};
}

PieceMatch find_spaced_cased_letters(const CharClasses& classes, const char* p, const char* end) {
  return find_spaced_ranges(kCasedLetters, classes, p, end);
}

PieceMatch find_spaced_wide_symbols(const CharClasses& classes, const char* p, const char* end) {
  return find_spaced_ranges(kWideSymbols, classes, p, end);
}

PieceMatch find_cjk_and_hangul(const CharClasses&, const char* p, const char* end) {
  return find_ranges(kCjkAndHangul, p, end);
}

PieceMatch find_cjk_and_kana(const CharClasses&, const char* p, const char* end) {
  return find_ranges(kCjkAndKana, p, end);
}

PieceMatch find_unspaced_scripts(const CharClasses&, const char* p, const char* end) {
  return find_ranges(kUnspaced, p, end);
}

PieceMatch find_east_asian(const CharClasses&, const char* p, const char* end) {
  return find_ranges(kEastAsian, p, end);
}

PieceMatch find_sentinel(const CharClasses&, const char* p, const char* end) {
  constexpr std::string_view kBegin = "<sentinel:";
  while (p < end) {
    const PieceMatch begin = find_text(kBegin, p, end);
    const char* q = std::find_if_not(begin.end, end, is_ascii_digit);
    if (q > begin.end && q < end && *q == '>') return {begin.begin, q + 1};
    p = begin.end;
  }
  return {end, end};
}

PieceMatch find_image_token(const CharClasses&, const char* p, const char* end) {
  constexpr std::string_view kBegin = "IMGIMG";
  while (p < end) {
    const PieceMatch begin = find_text(kBegin, p, end);
    const char* q = begin.end;
    while (q < end && q - begin.end < 4 && *q >= 'A' && *q <= 'I') ++q;
    if (q > begin.end && q < end && *q == 'Z') return {begin.begin, q + 1};
    p = begin.begin < end ? begin.begin + 1 : end;
  }
  return {end, end};
}

PieceMatch find_indent(const CharClasses&, const char* p, const char* end) {
  for (; p < end; ++p) {
    if (*p == '\t' || *p == '\n') return {p, p + 1};
    const std::string_view rest(p, static_cast<size_t>(end - p));
    if (rest.starts_with("    ")) return {p, p + 4};
    if (rest.starts_with("  ")) return {p, p + 2};
  }
  return {end, end};
}

}  // namespace bp::text
