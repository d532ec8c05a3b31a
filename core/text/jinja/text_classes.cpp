#include "core/text/jinja/text_classes.hpp"

#include <algorithm>

#include "core/text/jinja/text_ops.hpp"

namespace bp::text::jinja {
namespace {

// Python calls empty text neither alphabetic, numeric nor white.
template <class Predicate>
bool all_of(std::string_view text, Predicate predicate) {
  const std::u32string characters = decode(text);
  return !characters.empty() && std::all_of(characters.begin(), characters.end(), predicate);
}

bool is_cased(char32_t c) {
  return is_upper(c) || is_lower(c) || is_title(c);
}

// At least one cased character, and none for which `forbidden` holds.
template <class Predicate>
bool cased_without(std::string_view text, Predicate forbidden) {
  const std::u32string characters = decode(text);
  return std::any_of(characters.begin(), characters.end(), is_cased) &&
         std::none_of(characters.begin(), characters.end(), forbidden);
}

}  // namespace

bool is_alnum_text(std::string_view text) {
  return all_of(text, [](char32_t c) { return is_alpha(c) || is_numeric(c); });
}
bool is_alpha_text(std::string_view text) {
  return all_of(text, is_alpha);
}
bool is_decimal_text(std::string_view text) {
  return all_of(text, is_decimal);
}
bool is_digit_text(std::string_view text) {
  return all_of(text, is_digit);
}
bool is_numeric_text(std::string_view text) {
  return all_of(text, is_numeric);
}
bool is_space_text(std::string_view text) {
  return all_of(text, is_space);
}
bool is_printable_text(std::string_view text) {
  return text.empty() || all_of(text, is_printable);
}
bool is_identifier_text(std::string_view text) {
  return all_of(text, is_word) && !is_numeric(decode(text)[0]);
}
bool is_lower_text(std::string_view text) {
  return cased_without(text, [](char32_t c) { return is_upper(c) || is_title(c); });
}
bool is_upper_text(std::string_view text) {
  return cased_without(text, [](char32_t c) { return is_lower(c) || is_title(c); });
}

bool is_title_text(std::string_view text) {
  bool any = false, after_cased = false;
  for (char32_t c : decode(text)) {
    const bool head = is_upper(c) || is_title(c);
    if (head == after_cased && is_cased(c)) return false;
    after_cased = is_cased(c);
    any = any || after_cased;
  }
  return any;
}

std::string title_case(std::string_view text) {
  std::string out;
  bool after_cased = false;
  for (char32_t c : decode(text)) {
    if (after_cased) {
      out += to_lower(encode(std::u32string(1, c)));
    } else {
      append_utf8(to_title(c), out);
    }
    after_cased = is_cased(c);
  }
  return out;
}

std::string swap_case(std::string_view text) {
  std::string out;
  for (char32_t c : decode(text)) {
    const std::string one = encode(std::u32string(1, c));
    out += is_upper(c) ? to_lower(one) : is_lower(c) ? to_upper(one) : one;
  }
  return out;
}

}  // namespace bp::text::jinja
