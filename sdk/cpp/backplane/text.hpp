#pragma once
// Text out of files: validation, and quoting for messages.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace bp {

namespace text_detail {

// An error of the ABI has 508 bytes, for a path, a rule and two names.
inline constexpr size_t kMaxQuoted = 64;
inline constexpr size_t kMaxPath = 160;

constexpr bool is_continuation(uint8_t byte) {
  return (byte & 0xc0) == 0x80;
}

// The length of the well-formed character at the start of `rest`, or 0.
constexpr size_t character_length(std::string_view rest) {
  const auto at = [&](size_t i) { return i < rest.size() ? static_cast<uint8_t>(rest[i]) : 0; };
  const uint8_t first = at(0);
  if (first < 0x80) return first == 0 ? 0 : 1;
  const uint8_t second = at(1);
  if (!is_continuation(second)) return 0;
  if (first >= 0xc2 && first <= 0xdf) return 2;
  if (!is_continuation(at(2))) return 0;
  if (first == 0xe0) return second >= 0xa0 ? 3 : 0;
  if (first == 0xed) return second <= 0x9f ? 3 : 0;
  if (first >= 0xe1 && first <= 0xef) return 3;
  if (!is_continuation(at(3))) return 0;
  if (first == 0xf0) return second >= 0x90 ? 4 : 0;
  if (first >= 0xf1 && first <= 0xf3) return 4;
  if (first == 0xf4) return second <= 0x8f ? 4 : 0;
  return 0;
}

}  // namespace text_detail

// Well-formed UTF-8 (no overlong forms, surrogates or values above U+10FFFF) without NUL.
[[nodiscard]] constexpr bool is_text(std::string_view bytes) {
  while (!bytes.empty()) {
    const size_t n = text_detail::character_length(bytes);
    if (n == 0) return false;
    bytes.remove_prefix(n);
  }
  return true;
}

// In double quotes, printable ASCII as it is, other bytes as \xHH, cut to fit an error message.
[[nodiscard]] inline std::string quote(std::string_view bytes) {
  constexpr char kHex[] = "0123456789abcdef";
  std::string out = "\"";
  for (const char c : bytes) {
    if (out.size() > text_detail::kMaxQuoted) return out + "\"...";
    const auto byte = static_cast<uint8_t>(c);
    if (byte >= 0x20 && byte < 0x7f && c != '"' && c != '\\') {
      out += c;
    } else {
      out += {'\\', 'x', kHex[byte >> 4], kHex[byte & 15]};
    }
  }
  return out + "\"";
}

// The path, or "..." and its end when it is too long for an error message.
[[nodiscard]] inline std::string shortened_path(std::string_view path) {
  if (path.size() <= text_detail::kMaxPath) return std::string(path);
  path.remove_prefix(path.size() - text_detail::kMaxPath);
  while (!path.empty() && text_detail::is_continuation(static_cast<uint8_t>(path.front()))) {
    path.remove_prefix(1);
  }
  return "..." + std::string(path);
}

}  // namespace bp
