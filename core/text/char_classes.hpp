#pragma once
// Unicode properties that tokenizers ask for, as flags of each code point.

#include <array>
#include <cstdint>
#include <vector>

#include "core/text/utf8.hpp"

namespace bp::text {

namespace char_class {
using Mask = uint16_t;
inline constexpr Mask kLetter = 1 << 0;          // \p{L}
inline constexpr Mask kNumber = 1 << 1;          // \p{N}
inline constexpr Mask kSpace = 1 << 2;           // \s: White_Space
inline constexpr Mask kAccent = 1 << 3;          // \p{Mn}
inline constexpr Mask kPunctuation = 1 << 4;     // \p{P}
inline constexpr Mask kOther = 1 << 5;           // \p{C}
inline constexpr Mask kMark = 1 << 6;            // \p{M}
inline constexpr Mask kSymbol = 1 << 7;          // \p{S}
inline constexpr Mask kUpperOrUncased = 1 << 8;  // [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]
inline constexpr Mask kLowerOrUncased = 1 << 9;  // [\p{Ll}\p{Lm}\p{Lo}\p{M}]
inline constexpr Mask kDigit = 1 << 10;          // \d: \p{Nd}
inline constexpr Mask kWordCharacter = 1 << 11;  // \w
inline constexpr Mask kHan = 1 << 12;            // \p{Han}
}  // namespace char_class

struct ClassifiedChar {
  char32_t value;
  uint32_t size;             // bytes
  char_class::Mask classes;  // none for bytes that are not UTF-8
};

class CharClasses {
 public:
  // Built from ICU at the first call. [any-thread]
  static const CharClasses& get();

  [[nodiscard]] char_class::Mask of(char32_t c) const {
    return c < 0x80 ? ascii_[c] : pages_[page_of_[c >> kPageBits] | (c & kPageMask)];
  }

  // Precondition: p < end.
  [[nodiscard]] ClassifiedChar at(const char* p, const char* end) const {
    const auto byte = static_cast<uint8_t>(*p);
    if (byte < 0x80) return {byte, 1, ascii_[byte]};
    const Utf8Char c = decode_utf8(p, end);
    return {c.value, c.size, c.form == Utf8Form::kValid ? of(c.value) : char_class::Mask{0}};
  }

  // The end of the run of characters at p of which each has (or with `in` false: lacks) one of the
  // classes.
  template <bool in>
  [[nodiscard]] const char* skip(const char* p, const char* end, char_class::Mask classes) const {
    while (p < end) {
      const ClassifiedChar c = at(p, end);
      if (((c.classes & classes) != 0) != in) break;
      p += c.size;
    }
    return p;
  }

 private:
  CharClasses();

  static constexpr uint32_t kPageBits = 8;
  static constexpr uint32_t kPageMask = (1u << kPageBits) - 1;
  static constexpr uint32_t kCodePoints = 0x110000;

  std::array<char_class::Mask, 0x80> ascii_;
  std::vector<uint32_t> page_of_;        // [code point >> kPageBits], the page's offset in pages_
  std::vector<char_class::Mask> pages_;  // equal pages are stored once
};

}  // namespace bp::text
