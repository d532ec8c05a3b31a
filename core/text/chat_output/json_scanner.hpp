#pragma once
// Finds the end of a JSON value in text that comes byte by byte.

#include <cstdint>
#include <string>
#include <string_view>

namespace bp::text::chat {

// One value. Control characters inside strings pass, since models write line breaks there.
class JsonScanner {
 public:
  enum class Outcome : uint8_t {
    kInside,  // the byte is part of the value, which goes on
    kLast,    // the byte ends the value
    kPast,    // the value has ended before this byte
    kBad,     // no JSON
  };
  static constexpr size_t kMaxDepth = 64;

  // The first byte is the value's: white space before it is the caller's matter.
  Outcome take(char c);

 private:
  enum class Place : uint8_t {
    kValue,
    kFirstKey,  // or the end of an empty object
    kFirstItem,
    kKey,
    kString,
    kEscape,
    kHex,
    kScalar,  // number, true, false or null
    kColon,
    kNext,  // comma or the container's end
  };

  Outcome begin_value(char c);
  Outcome end_value();
  Outcome in_string(char c);
  Outcome in_scalar(char c);
  Outcome between(char c);

  Place place_ = Place::kValue;
  std::string open_;     // the containers around: '{' and '['
  bool is_key_ = false;  // of the string
  int n_hex_ = 0;
  std::string scalar_;
};

[[nodiscard]] constexpr bool is_json_space(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

[[nodiscard]] constexpr std::string_view trim_json_space_right(std::string_view text) {
  while (!text.empty() && is_json_space(text.back())) text.remove_suffix(1);
  return text;
}
[[nodiscard]] constexpr std::string_view trim_json_space(std::string_view text) {
  while (!text.empty() && is_json_space(text.front())) text.remove_prefix(1);
  return trim_json_space_right(text);
}

// True, False and None as JSON has them; any other text as it is.
[[nodiscard]] constexpr std::string_view json_literal(std::string_view text) {
  if (text == "True") return "true";
  if (text == "False") return "false";
  return text == "None" ? "null" : text;
}
// A whole JSON value, strictly.
[[nodiscard]] bool is_json(std::string_view text);
// The text of a JSON string with its quotes; false where it is none.
[[nodiscard]] bool decode_json_string(std::string_view json, std::string& text);
// Appends the text as a JSON string with quotes. It is valid UTF-8.
void append_json_string(std::string_view text, std::string& out);

}  // namespace bp::text::chat
