#include "core/text/jinja/text_ops.hpp"

#include <unicode/locid.h>
#include <unicode/uchar.h>
#include <unicode/unistr.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <utility>

namespace bp::text::jinja {
namespace {

constexpr size_t kNone = std::string_view::npos;

// The character at i of valid text; moves i behind it.
char32_t decode_at(std::string_view text, size_t& i) {
  const Utf8Char c = decode_utf8(text.data() + i, text.data() + text.size());
  i += c.size;
  return c.value;
}

size_t previous(std::string_view text, size_t end) {
  do {
    --end;
  } while ((static_cast<unsigned char>(text[end]) & 0xC0) == 0x80);
  return end;
}

template <class Predicate>
std::string_view strip_if(std::string_view text, Side side, Predicate strip_it) {
  size_t begin = 0, end = text.size();
  if (side != Side::kRight) {
    for (size_t next = begin; begin < end && strip_it(decode_at(text, next));) begin = next;
  }
  if (side != Side::kLeft) {
    while (end > begin) {
      const size_t start = previous(text, end);
      size_t next = start;
      if (!strip_it(decode_at(text, next))) break;
      end = start;
    }
  }
  return text.substr(begin, end - begin);
}

template <class Map, class AsciiMap>
std::string map_case(std::string_view text, Map map, AsciiMap ascii_map) {
  if (is_ascii(text)) {
    std::string out(text);
    std::transform(out.begin(), out.end(), out.begin(), ascii_map);
    return out;
  }
  auto wide = icu::UnicodeString::fromUTF8(
      icu::StringPiece(text.data(), static_cast<int32_t>(text.size())));
  map(wide);
  std::string out;
  wide.toUTF8String(out);
  return out;
}

char ascii_upper(char c) {
  return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c;
}
char ascii_lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
}

bool is_line_break(char32_t c) {
  return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 ||
         c == 0x2029;
}

}  // namespace

size_t utf8_length(unsigned char lead) {
  return lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
}

bool is_valid_utf8(std::string_view text) {
  const char* const end = text.data() + text.size();
  for (const char* p = text.data(); p < end;) {
    const Utf8Char c = decode_utf8(p, end);
    if (c.form != Utf8Form::kValid) return false;
    p += c.size;
  }
  return true;
}

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

std::u32string decode(std::string_view utf8) {
  std::u32string out;
  out.reserve(utf8.size());
  for (size_t i = 0; i < utf8.size();) out.push_back(decode_at(utf8, i));
  return out;
}

std::string encode(std::u32string_view text) {
  std::string out;
  out.reserve(text.size());
  for (char32_t c : text) append_utf8(c, out);
  return out;
}

size_t count_code_points(std::string_view utf8) {
  return static_cast<size_t>(std::count_if(utf8.begin(), utf8.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

size_t byte_offset(std::string_view utf8, size_t index) {
  size_t i = 0;
  for (; index > 0 && i < utf8.size(); --index) {
    i += utf8_length(static_cast<unsigned char>(utf8[i]));
  }
  return i;
}

bool is_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 ||
         c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
         c == 0x205F || c == 0x3000;
}

bool is_printable(char32_t c) {
  if (c < 0x7F) return c >= 0x20;
  switch (u_charType(static_cast<UChar32>(c))) {
    case U_CONTROL_CHAR:
    case U_FORMAT_CHAR:
    case U_SURROGATE:
    case U_PRIVATE_USE_CHAR:
    case U_UNASSIGNED:
    case U_LINE_SEPARATOR:
    case U_PARAGRAPH_SEPARATOR:
    case U_SPACE_SEPARATOR:
      return false;
    default:
      return true;
  }
}

bool is_alpha(char32_t c) {
  return u_isalpha(static_cast<UChar32>(c));
}
bool is_decimal(char32_t c) {
  return u_charType(static_cast<UChar32>(c)) == U_DECIMAL_DIGIT_NUMBER;
}
bool is_digit(char32_t c) {
  const auto type = u_getIntPropertyValue(static_cast<UChar32>(c), UCHAR_NUMERIC_TYPE);
  return type == U_NT_DECIMAL || type == U_NT_DIGIT;
}
bool is_numeric(char32_t c) {
  return u_getIntPropertyValue(static_cast<UChar32>(c), UCHAR_NUMERIC_TYPE) != U_NT_NONE;
}
bool is_word(char32_t c) {
  return is_alpha(c) || is_numeric(c) || c == '_';
}
bool is_upper(char32_t c) {
  return u_isUUppercase(static_cast<UChar32>(c));
}
bool is_lower(char32_t c) {
  return u_isULowercase(static_cast<UChar32>(c));
}
bool is_title(char32_t c) {
  return u_istitle(static_cast<UChar32>(c));
}
char32_t to_title(char32_t c) {
  return static_cast<char32_t>(u_totitle(static_cast<UChar32>(c)));
}

std::string_view strip(std::string_view text, Side side) {
  return strip_if(text, side, is_space);
}

std::string_view strip(std::string_view text, std::u32string_view characters, Side side) {
  std::u32string sorted(characters);
  std::ranges::sort(sorted);
  return strip_if(text, side, [&](char32_t c) { return std::ranges::binary_search(sorted, c); });
}

std::string to_upper(std::string_view text) {
  return map_case(
      text, [](icu::UnicodeString& s) { s.toUpper(icu::Locale::getRoot()); }, ascii_upper);
}
std::string to_lower(std::string_view text) {
  return map_case(
      text, [](icu::UnicodeString& s) { s.toLower(icu::Locale::getRoot()); }, ascii_lower);
}
std::string fold_case(std::string_view text) {
  return map_case(
      text, [](icu::UnicodeString& s) { s.foldCase(); }, ascii_lower);
}

std::string capitalize(std::string_view text) {
  if (text.empty()) return {};
  size_t first = 0;
  const char32_t c = decode_at(text, first);
  std::string out;
  append_utf8(to_title(c), out);
  return out + to_lower(text.substr(first));
}

size_t find_first(std::string_view text, std::string_view part, size_t from) {
  if (from > text.size()) return kNone;
  if (part.empty()) return from;
  const void* hit = memmem(text.data() + from, text.size() - from, part.data(), part.size());
  return hit ? static_cast<size_t>(static_cast<const char*>(hit) - text.data()) : kNone;
}

size_t find_last(std::string_view text, std::string_view part) {
  if (part.size() > text.size()) return kNone;
  const std::string reversed(text.rbegin(), text.rend());
  const std::string reversed_part(part.rbegin(), part.rend());
  const size_t hit = find_first(reversed, reversed_part);
  return hit == kNone ? kNone : text.size() - hit - part.size();
}

std::string replace(std::string_view text, std::string_view from, std::string_view to,
                    size_t limit) {
  std::string out;
  size_t i = 0;
  for (; limit > 0; --limit) {
    if (from.empty()) {
      out += to;
      if (i == text.size()) break;
      const size_t n = utf8_length(static_cast<unsigned char>(text[i]));
      out += text.substr(i, n);
      i += n;
      continue;
    }
    const size_t hit = find_first(text, from, i);
    if (hit == kNone) break;
    out += text.substr(i, hit - i);
    out += to;
    i = hit + from.size();
  }
  return out.append(text.substr(i));
}

std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends) {
  std::vector<std::string_view> lines;
  size_t begin = 0;
  for (size_t i = 0; i < text.size();) {
    const size_t end = i;
    const char32_t c = decode_at(text, i);
    if (!is_line_break(c)) continue;
    if (c == '\r' && i < text.size() && text[i] == '\n') ++i;
    lines.push_back(text.substr(begin, (keep_ends ? i : end) - begin));
    begin = i;
  }
  if (begin < text.size()) lines.push_back(text.substr(begin));
  return lines;
}

std::string unescape_html(std::string_view text) {
  constexpr std::pair<std::string_view, char> kNames[] = {
      {"amp", '&'}, {"lt", '<'}, {"gt", '>'}, {"quot", '"'}, {"apos", '\''}};
  constexpr size_t kMaxReference = 12;
  const auto character_of = [&](std::string_view name) -> std::string {
    for (const auto& [known, character] : kNames) {
      if (name == known) return std::string(1, character);
    }
    if (!name.starts_with('#')) return {};
    name.remove_prefix(1);
    const bool is_hex = name.starts_with('x') || name.starts_with('X');
    if (is_hex) name.remove_prefix(1);
    uint32_t number = 0;
    const auto [end, error] =
        std::from_chars(name.data(), name.data() + name.size(), number, is_hex ? 16 : 10);
    const bool is_number = error == std::errc() && end == name.data() + name.size();
    const bool is_character = number > 0 && number < 0x110000 && (number >> 11) != 0x1B;
    return is_number && is_character ? encode(std::u32string(1, number)) : std::string();
  };
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const size_t end = text[i] == '&' ? text.substr(i, kMaxReference).find(';') : text.npos;
    const std::string found = end == text.npos ? "" : character_of(text.substr(i + 1, end - 1));
    if (found.empty()) {
      out += text[i];
    } else {
      out += found;
      i += end;
    }
  }
  return out;
}

std::string escape_html(std::string_view text) {
  std::string out;
  for (char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&#34;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

}  // namespace bp::text::jinja
