#pragma once
// The printable characters that stand for bytes in byte-level BPE vocabularies: printable Latin-1
// stands for itself, the other 68 bytes are U+0100 and on, in order.

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/text/utf8.hpp"

namespace bp::text {

inline constexpr char32_t kAlphabetEnd = 0x100 + 68;

[[nodiscard]] constexpr bool stands_for_itself(uint32_t byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xFF && byte != 0xAD);
}

// [character] the byte it stands for, or -1.
inline constexpr auto kByteOfCharacter = [] {
  std::array<int16_t, kAlphabetEnd> table{};
  table.fill(-1);
  char32_t next = 0x100;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    table[stands_for_itself(byte) ? byte : next++] = static_cast<int16_t>(byte);
  }
  return table;
}();

// Each byte as the character that stands for it.
[[nodiscard]] inline std::string alphabet_of_bytes(std::string_view bytes) {
  static constexpr auto kCharacterOfByte = [] {
    std::array<char32_t, 256> table{};
    for (char32_t c = 0; c < kAlphabetEnd; ++c) {
      if (kByteOfCharacter[c] >= 0) table[static_cast<size_t>(kByteOfCharacter[c])] = c;
    }
    return table;
  }();
  std::string text;
  for (const char byte : bytes) append_utf8(kCharacterOfByte[static_cast<uint8_t>(byte)], text);
  return text;
}

// The bytes that a token's text stands for; characters outside the alphabet stay as they are.
[[nodiscard]] inline std::string bytes_of_alphabet(std::string_view text) {
  std::string bytes;
  const char* const end = text.data() + text.size();
  for (const char* p = text.data(); p < end;) {
    const Utf8Char c = decode_utf8(p, end);
    const int16_t byte = c.form == Utf8Form::kValid && c.value < kAlphabetEnd
                             ? kByteOfCharacter[c.value]
                             : int16_t{-1};
    if (byte >= 0) {
      bytes.push_back(static_cast<char>(byte));
    } else {
      bytes.append(p, c.size);
    }
    p += c.size;
  }
  return bytes;
}

}  // namespace bp::text
