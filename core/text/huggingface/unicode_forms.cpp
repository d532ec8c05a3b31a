#include "core/text/huggingface/unicode_forms.hpp"

#include <unicode/bytestream.h>
#include <unicode/normalizer2.h>
#include <unicode/uchar.h>

#include <algorithm>

#include "core/text/bert_normaliser.hpp"
#include "core/text/char_classes.hpp"
#include "core/text/utf8.hpp"

namespace bp::text::huggingface {
namespace {

const icu::Normalizer2* normalizer_of(UnicodeForm form) {
  UErrorCode error = U_ZERO_ERROR;
  switch (form) {
    case UnicodeForm::kNfc:
      return icu::Normalizer2::getNFCInstance(error);
    case UnicodeForm::kNfd:
      return icu::Normalizer2::getNFDInstance(error);
    case UnicodeForm::kNfkc:
      return icu::Normalizer2::getNFKCInstance(error);
    case UnicodeForm::kNfkd:
      return icu::Normalizer2::getNFKDInstance(error);
  }
  return nullptr;
}

// Calls each(character, bytes) for every character; bytes that are none go to `out`.
template <class Each>
void for_each_character(std::string_view text, std::string& out, const Each& each) {
  const char* const end = text.data() + text.size();
  for (const char* p = text.data(); p < end;) {
    const Utf8Char c = decode_utf8(p, end);
    const std::string_view bytes(p, c.size);
    if (c.form == Utf8Form::kValid) {
      each(c.value, bytes);
    } else {
      out.append(bytes);
    }
    p += c.size;
  }
}

template <class Drops>
std::string without(std::string_view text, const Drops& drops) {
  std::string out;
  for_each_character(text, out, [&](char32_t c, std::string_view bytes) {
    if (!drops(c)) out.append(bytes);
  });
  return out;
}

// A run of valid UTF-8.
void append_form(const icu::Normalizer2& normalizer, std::string_view text, std::string& out) {
  UErrorCode error = U_ZERO_ERROR;
  std::string form;
  icu::StringByteSink<std::string> sink(&form);
  normalizer.normalizeUTF8(0, icu::StringPiece(text.data(), static_cast<int32_t>(text.size())),
                           sink, nullptr, error);
  out.append(U_SUCCESS(error) ? std::string_view(form) : text);
}

size_t valid_prefix(std::string_view text) {
  const char* const end = text.data() + text.size();
  const char* p = text.data();
  while (p < end) {
    const Utf8Char c = decode_utf8(p, end);
    if (c.form != Utf8Form::kValid) break;
    p += c.size;
  }
  return static_cast<size_t>(p - text.data());
}

}  // namespace

std::string to_form(std::string_view text, UnicodeForm form) {
  const auto is_ascii = [](char c) { return static_cast<uint8_t>(c) < 0x80; };
  const icu::Normalizer2* normalizer = normalizer_of(form);
  if (normalizer == nullptr || std::ranges::all_of(text, is_ascii)) return std::string(text);
  std::string out;
  while (!text.empty()) {
    const size_t n = valid_prefix(text);
    append_form(*normalizer, text.substr(0, n), out);
    text.remove_prefix(n);
    if (text.empty()) break;
    out.push_back(text.front());
    text.remove_prefix(1);
  }
  return out;
}

std::string lower_case(std::string_view text) {
  std::string out;
  for_each_character(text, out, [&](char32_t c, std::string_view) {
    if (c == 0x130) {
      out += "i\xCC\x87";  // the one character whose lower case is two
    } else {
      append_utf8(static_cast<char32_t>(u_tolower(static_cast<UChar32>(c))), out);
    }
  });
  return out;
}

std::string without_marks(std::string_view text) {
  return without(
      text, [](char32_t c) { return (U_GET_GC_MASK(static_cast<UChar32>(c)) & U_GC_M_MASK) != 0; });
}

std::string without_nonspacing_marks(std::string_view text) {
  return without(text, [](char32_t c) {
    return (U_GET_GC_MASK(static_cast<UChar32>(c)) & U_GC_MN_MASK) != 0;
  });
}

std::string stripped(std::string_view text, bool left, bool right) {
  const CharClasses& classes = CharClasses::get();
  const char* begin = text.data();
  const char* end = begin + text.size();
  if (left) begin = classes.skip<true>(begin, end, char_class::kSpace);
  const char* last = begin;  // behind the last character that is no space
  for (const char* p = begin; p < end;) {
    const ClassifiedChar c = classes.at(p, end);
    p += c.size;
    if ((c.classes & char_class::kSpace) == 0) last = p;
  }
  return {begin, right ? last : end};
}

std::string spaces_collapsed(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    if (c != ' ' || (!out.empty() && out.back() != ' ')) out.push_back(c);
  }
  if (out.ends_with(' ')) out.pop_back();
  return out;
}

std::string clean_text(std::string_view text) {
  const CharClasses& classes = CharClasses::get();
  std::string out;
  for_each_character(text, out, [&](char32_t c, std::string_view bytes) {
    const char_class::Mask of_c = classes.of(c);
    const bool is_blank = c == '\t' || c == '\n' || c == '\r';
    if (c == 0 || c == kReplacement || (!is_blank && (of_c & char_class::kOther))) return;
    out.append(of_c & char_class::kSpace ? std::string_view(" ") : bytes);
  });
  return out;
}

std::string space_chinese(std::string_view text) {
  std::string out;
  for_each_character(text, out, [&](char32_t c, std::string_view bytes) {
    const std::string_view space = BertNormaliser::is_chinese(c) ? " " : "";
    out.append(space).append(bytes).append(space);
  });
  return out;
}

std::string nmt_cleaned(std::string_view text) {
  const auto is_dropped = [](char32_t c) {
    return (c >= 1 && c <= 8) || c == 0xB || (c >= 0xE && c <= 0x1F) || c == 0x7F || c == 0x8F ||
           c == 0x9F;
  };
  const auto is_space = [](char32_t c) {
    return c == 9 || c == 0xA || c == 0xC || c == 0xD || c == 0x1680 ||
           (c >= 0x200B && c <= 0x200F) || c == 0x2028 || c == 0x2029 || c == 0x2581 ||
           c == 0xFEFF || c == 0xFFFD;
  };
  std::string out;
  for_each_character(text, out, [&](char32_t c, std::string_view bytes) {
    if (!is_dropped(c)) out.append(is_space(c) ? std::string_view(" ") : bytes);
  });
  return out;
}

}  // namespace bp::text::huggingface
