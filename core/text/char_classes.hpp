#pragma once
// Unicode properties that tokenizers ask for, as one byte of flags per code point.

#include <array>
#include <cstdint>
#include <vector>

#include "core/text/utf8.hpp"

namespace bp::text {

namespace char_class {
inline constexpr uint8_t kLetter = 1;        // \p{L}
inline constexpr uint8_t kNumber = 2;        // \p{N}
inline constexpr uint8_t kSpace = 4;         // \s: White_Space
inline constexpr uint8_t kAccent = 8;        // \p{Mn}
inline constexpr uint8_t kPunctuation = 16;  // \p{P}
inline constexpr uint8_t kOther = 32;        // \p{C}
}  // namespace char_class

struct ClassifiedChar {
  char32_t value;
  uint32_t size;    // bytes
  uint8_t classes;  // char_class flags; none for bytes that are not UTF-8
};

class CharClasses {
 public:
  // Built from ICU at the first call. [any-thread]
  static const CharClasses& get();

  [[nodiscard]] uint8_t of(char32_t c) const {
    return c < 0x80 ? ascii_[c] : pages_[page_of_[c >> kPageBits] | (c & kPageMask)];
  }

  // Precondition: p < end.
  [[nodiscard]] ClassifiedChar at(const char* p, const char* end) const {
    const auto byte = static_cast<uint8_t>(*p);
    if (byte < 0x80) return {byte, 1, ascii_[byte]};
    const Utf8Char c = decode_utf8(p, end);
    return {c.value, c.size, c.form == Utf8Form::kValid ? of(c.value) : uint8_t{0}};
  }

  // The end of the run of characters at p of which each has (or with `in` false: lacks) one of the
  // classes.
  template <bool in>
  [[nodiscard]] const char* skip(const char* p, const char* end, uint8_t classes) const {
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

  std::array<uint8_t, 0x80> ascii_;
  std::vector<uint32_t> page_of_;  // [code point >> kPageBits], the page's offset in pages_
  std::vector<uint8_t> pages_;     // equal pages are stored once
};

}  // namespace bp::text
