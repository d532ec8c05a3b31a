#include "core/text/bert_normaliser.hpp"

#include <unicode/uchar.h>
#include <unicode/unorm2.h>
#include <unicode/utf16.h>

#include <array>

namespace bp::text {
namespace {

struct Range {
  char32_t first;
  char32_t last;
};

constexpr Range kChinese[] = {{0x4E00, 0x9FFF},   {0x3400, 0x4DBF},   {0x20000, 0x2A6DF},
                              {0x2A700, 0x2B73F}, {0x2B740, 0x2B81F}, {0x2B820, 0x2CEAF},
                              {0xF900, 0xFAFF},   {0x2F800, 0x2FA1F}};

bool is_ascii_symbol(char32_t c) {
  return (c > ' ' && c < '0') || (c > '9' && c < 'A') || (c > 'Z' && c < 'a') ||
         (c > 'z' && c < 0x7F);
}

}  // namespace

bool BertNormaliser::is_chinese(char32_t c) {
  for (const Range& range : kChinese) {
    if (c >= range.first && c <= range.last) return true;
  }
  return false;
}

BertNormaliser::Role BertNormaliser::role_of(char32_t c, char_class::Mask classes,
                                             bool strips_accents) {
  const bool is_blank = c == '\t' || c == '\n' || c == '\r';
  if (!is_blank && (classes & char_class::kOther)) return Role::kDropped;
  if (strips_accents && (classes & char_class::kAccent)) return Role::kDropped;
  if (c == kReplacement) return Role::kDropped;
  if (classes & char_class::kSpace) return Role::kSpace;
  const bool is_mark = (classes & char_class::kPunctuation) || is_ascii_symbol(c);
  return is_mark || is_chinese(c) ? Role::kAlone : Role::kInWord;
}

char32_t BertNormaliser::lower(char32_t c) {
  if (c < 0x80) return c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c;
  return static_cast<char32_t>(u_tolower(static_cast<UChar32>(c)));
}

void BertNormaliser::decompose(char32_t c, std::u32string& out) {
  std::array<UChar, 64> units;
  UErrorCode error = U_ZERO_ERROR;
  const UNormalizer2* nfd = c < 0x80 ? nullptr : unorm2_getNFDInstance(&error);
  const int32_t n = nfd == nullptr
                        ? -1
                        : unorm2_getDecomposition(nfd, static_cast<UChar32>(c), units.data(),
                                                  static_cast<int32_t>(units.size()), &error);
  if (n < 0 || U_FAILURE(error)) {
    out.push_back(c);  // has no decomposition
    return;
  }
  for (int32_t i = 0; i < n;) {
    UChar32 part;
    U16_NEXT(units.data(), i, n, part);
    out.push_back(static_cast<char32_t>(part));
  }
}

}  // namespace bp::text
