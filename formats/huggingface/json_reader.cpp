#include "formats/huggingface/json_reader.hpp"

#include <charconv>
#include <cmath>

#include "backplane/text.hpp"
#include "formats/huggingface/limits.hpp"

namespace bp::huggingface {

namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

void append_utf8(uint32_t c, std::string& out) {
  const auto byte = [&](uint32_t b) { out.push_back(static_cast<char>(b)); };
  if (c < 0x80) return byte(c);
  if (c < 0x800) {
    byte(0xC0 | c >> 6);
  } else if (c < 0x10000) {
    byte(0xE0 | c >> 12);
    byte(0x80 | (c >> 6 & 0x3F));
  } else {
    byte(0xF0 | c >> 18);
    byte(0x80 | (c >> 12 & 0x3F));
    byte(0x80 | (c >> 6 & 0x3F));
  }
  byte(0x80 | (c & 0x3F));
}

template <class T>
bool parse(std::string_view text, T& value) {
  const char* end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, value);
  return result.ec == std::errc() && result.ptr == end;
}

}  // namespace

bool JsonReader::require(bool holds, const std::string& rule) {
  if (!holds && ok()) fault_ = "offset " + std::to_string(first_offset_ + at_) + ": " + rule;
  return ok();
}

void JsonReader::skip_space() {
  while (at_ < text_.size() &&
         (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\r' || text_[at_] == '\t')) {
    ++at_;
  }
}

bool JsonReader::take(char c, const char* rule) {
  skip_space();
  if (!require(next() == c, rule)) return false;
  ++at_;
  return true;
}

JsonKind JsonReader::peek() {
  if (!ok()) return JsonKind::kNothing;
  skip_space();
  switch (next()) {
    case '{':
      return JsonKind::kObject;
    case '[':
      return JsonKind::kArray;
    case '"':
      return JsonKind::kString;
    case 't':
    case 'f':
      return JsonKind::kBool;
    case 'n':
      return JsonKind::kNull;
    default:
      break;
  }
  if (next() == '-' || is_digit(next())) return JsonKind::kNumber;
  require(false, at_ < text_.size() ? "a JSON value must stand here" : "the JSON text ends early");
  return JsonKind::kNothing;
}

bool JsonReader::enter(char bracket, bool is_object) {
  if (!ok() || !take(bracket, is_object ? "an object must stand here" : "an array must stand here"))
    return false;
  if (!require(levels_.size() < kMaxJsonDepth,
               "more than " + std::to_string(kMaxJsonDepth) + " levels of JSON")) {
    return false;
  }
  levels_.push_back({is_object});
  return true;
}

bool JsonReader::enter_object() {
  return enter('{', true);
}

bool JsonReader::enter_array() {
  return enter('[', false);
}

bool JsonReader::continue_level(char closing) {
  if (!ok()) return false;
  skip_space();
  if (next() == closing) {
    ++at_;
    levels_.pop_back();
    return false;
  }
  Level& level = levels_.back();
  if (!level.is_first && !take(',', "a comma or the closing bracket must stand here")) return false;
  level.is_first = false;
  return true;
}

bool JsonReader::next_element() {
  return continue_level(']');
}

bool JsonReader::next_member(std::string& key) {
  if (!continue_level('}')) return false;
  skip_space();
  if (!require(next() == '"', "the name of a member must stand here")) return false;
  key = read_string();
  if (!ok() || !take(':', "a colon must stand here")) return false;
  return require(levels_.back().keys.insert(key).second, "member " + quote(key) + " stands twice");
}

std::string JsonReader::read_string() {
  std::string out;
  if (!ok() || !take('"', "a string must stand here")) return out;
  for (;;) {
    const size_t plain = at_;
    while (at_ < text_.size() && text_[at_] != '"' && text_[at_] != '\\' &&
           static_cast<uint8_t>(text_[at_]) >= 0x20) {
      ++at_;
    }
    out.append(text_, plain, at_ - plain);
    if (!require(at_ < text_.size(), "the JSON text ends within a string")) return {};
    if (next() == '"') break;
    if (!require(next() == '\\', "a control character in a string")) return {};
    ++at_;
    read_escape(out);
    if (!ok()) return {};
  }
  ++at_;
  require(is_text(out), "a string is not UTF-8 without NUL");
  return out;
}

void JsonReader::read_escape(std::string& out) {
  constexpr std::string_view kLetters = "\"\\/bfnrt";
  constexpr std::string_view kMeanings = "\"\\/\b\f\n\r\t";
  if (const size_t i = kLetters.find(next()); i != std::string_view::npos && at_ < text_.size()) {
    ++at_;
    out.push_back(kMeanings[i]);
    return;
  }
  if (!require(next() == 'u', "an unknown escape in a string")) return;
  ++at_;
  uint32_t c = read_hex4();
  if (c >= 0xD800 && c < 0xDC00) {
    const bool pair = text_.substr(at_, 2) == "\\u";
    if (pair) at_ += 2;
    const uint32_t low = pair ? read_hex4() : 0;
    if (!require(low >= 0xDC00 && low < 0xE000, "half of a surrogate pair")) return;
    c = 0x10000 + ((c - 0xD800) << 10) + (low - 0xDC00);
  }
  if (require(c < 0xDC00 || c >= 0xE000, "half of a surrogate pair")) append_utf8(c, out);
}

uint32_t JsonReader::read_hex4() {
  uint32_t value = 0;
  const std::string_view digits = text_.substr(at_, 4);
  const char* end = digits.data() + digits.size();
  const auto result = std::from_chars(digits.data(), end, value, 16);
  if (!require(digits.size() == 4 && result.ec == std::errc() && result.ptr == end,
               "\\u needs four hexadecimal digits")) {
    return 0;
  }
  at_ += 4;
  return value;
}

// The number at the reader's place by JSON's grammar, taken; empty where there is none.
std::string_view JsonReader::number_text() {
  const size_t begin = at_;
  const auto digits = [&] {
    const size_t first = at_;
    while (is_digit(next())) ++at_;
    return at_ - first;
  };
  if (next() == '-') ++at_;
  const bool leading_zero = next() == '0';
  const size_t n_whole = digits();
  bool valid = n_whole > 0 && !(leading_zero && n_whole > 1);
  if (next() == '.') ++at_, valid = digits() > 0 && valid;
  if (next() == 'e' || next() == 'E') {
    ++at_;
    if (next() == '+' || next() == '-') ++at_;
    valid = digits() > 0 && valid;
  }
  return valid ? text_.substr(begin, at_ - begin) : std::string_view();
}

JsonNumber JsonReader::read_number() {
  if (!require(peek() == JsonKind::kNumber, "a number must stand here")) return uint64_t{0};
  const size_t begin = at_;
  const std::string_view text = number_text();
  uint64_t whole = 0;
  int64_t negative = 0;
  double real = 0;
  if (!text.empty() && parse(text, whole)) return whole;
  if (!text.empty() && parse(text, negative)) return negative;
  const bool is_real = !text.empty() && parse(text, real) && std::isfinite(real);
  if (!is_real) at_ = begin;
  require(is_real, "no number of JSON, or beyond the range of a double");
  return real;
}

uint64_t JsonReader::read_u64(std::string_view what) {
  const JsonNumber number = read_number();
  const uint64_t* whole = std::get_if<uint64_t>(&number);
  require(whole != nullptr, std::string(what) + " must be a whole number of 0 to 2^64-1");
  return ok() ? *whole : 0;
}

bool JsonReader::take_word(std::string_view word) {
  if (!require(text_.substr(at_, word.size()) == word, "a JSON value must stand here")) {
    return false;
  }
  at_ += word.size();
  return true;
}

bool JsonReader::read_bool() {
  if (!require(peek() == JsonKind::kBool, "true or false must stand here")) return false;
  const bool value = next() == 't';
  return take_word(value ? "true" : "false") && value;
}

void JsonReader::skip_value() {
  std::string key;
  switch (peek()) {
    case JsonKind::kObject:
      for (enter_object(); next_member(key);) skip_value();
      return;
    case JsonKind::kArray:
      for (enter_array(); next_element();) skip_value();
      return;
    case JsonKind::kString:
      static_cast<void>(read_string());
      return;
    case JsonKind::kNumber:
      static_cast<void>(read_number());
      return;
    case JsonKind::kBool:
      static_cast<void>(read_bool());
      return;
    case JsonKind::kNull:
      take_word("null");
      return;
    case JsonKind::kNothing:
      return;
  }
}

bool JsonReader::expect_end() {
  if (!ok()) return false;
  skip_space();
  return require(at_ == text_.size(), "the JSON text must end here");
}

}  // namespace bp::huggingface
