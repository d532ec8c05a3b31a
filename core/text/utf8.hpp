#pragma once
// UTF-8 by the rules of the Unicode standard: shortest forms only, no surrogates, at most U+10FFFF.

#include <cstdint>
#include <string>
#include <string_view>

namespace bp::text {

inline constexpr char32_t kReplacement = 0xFFFD;
inline constexpr std::string_view kReplacementUtf8 = "\xEF\xBF\xBD";

enum class Utf8Form : uint8_t {
  kValid,
  kInvalid,     // no continuation can make these bytes a character
  kIncomplete,  // the text ends within what may still become a character
};

struct Utf8Char {
  char32_t value;  // kReplacement unless valid
  uint32_t size;   // bytes, at least 1; of an ill-formed sequence its longest plausible prefix
  Utf8Form form;
};

// The character at p. Precondition: p < end.
[[nodiscard]] inline Utf8Char decode_utf8(const char* p, const char* end) {
  const auto lead = static_cast<uint8_t>(*p);
  if (lead < 0x80) return {lead, 1, Utf8Form::kValid};
  if (lead < 0xC2 || lead > 0xF4) return {kReplacement, 1, Utf8Form::kInvalid};
  const uint32_t size = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  // Bounds of the second byte exclude overlong forms, surrogates and values over U+10FFFF.
  uint8_t low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  uint8_t high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  char32_t value = lead & (0xFFu >> (size + 1));
  for (uint32_t i = 1; i < size; ++i) {
    if (p + i == end) return {kReplacement, i, Utf8Form::kIncomplete};
    const auto byte = static_cast<uint8_t>(p[i]);
    if (byte < low || byte > high) return {kReplacement, i, Utf8Form::kInvalid};
    value = value << 6 | (byte & 0x3F);
    low = 0x80;
    high = 0xBF;
  }
  return {value, size, Utf8Form::kValid};
}

// Precondition: value is a Unicode scalar value.
inline void append_utf8(char32_t value, std::string& out) {
  const auto byte = [&](char32_t b) { out.push_back(static_cast<char>(b)); };
  const auto continuation = [&](int shift) { byte(0x80 | (value >> shift & 0x3F)); };
  if (value < 0x80) {
    byte(value);
  } else if (value < 0x800) {
    byte(0xC0 | value >> 6);
    continuation(0);
  } else if (value < 0x10000) {
    byte(0xE0 | value >> 12);
    continuation(6);
    continuation(0);
  } else {
    byte(0xF0 | value >> 18);
    continuation(12);
    continuation(6);
    continuation(0);
  }
}

}  // namespace bp::text
