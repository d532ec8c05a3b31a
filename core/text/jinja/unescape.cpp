#include "core/text/jinja/unescape.hpp"

#include <unicode/uchar.h>

#include <algorithm>

#include "core/text/jinja/error.hpp"
#include "core/text/jinja/text_ops.hpp"

namespace bp::text::jinja {
namespace {

class Unescaper {
 public:
  Unescaper(std::string_view literal, int line) : rest_(literal), line_(line) {}

  std::string run() {
    while (!rest_.empty()) {
      const size_t plain = std::min(rest_.find('\\'), rest_.size());
      out_ += rest_.substr(0, plain);
      rest_.remove_prefix(plain);
      if (!rest_.empty()) escape();
    }
    return std::move(out_);
  }

 private:
  // rest_ begins with a backslash and has a character after it.
  void escape() {
    constexpr std::string_view kNames = "\\'\"abfnrtv", kValues = "\\'\"\a\b\f\n\r\t\v";
    const char c = rest_[1];
    if (const size_t i = kNames.find(c); i != std::string_view::npos) {
      out_ += kValues[i];
      return rest_.remove_prefix(2);
    }
    switch (c) {
      case '\n':
        return rest_.remove_prefix(2);
      case 'x':
        return hexadecimal(2);
      case 'u':
        return hexadecimal(4);
      case 'U':
        return hexadecimal(8);
      case 'N':
        return named();
      default:
        if (c >= '0' && c <= '7') return octal();
        out_ += '\\';  // an unknown escape stays as it is
        rest_.remove_prefix(1);
    }
  }

  void append(char32_t c) {
    if (c > 0x10FFFF || (c >= 0xD800 && c < 0xE000)) fail_syntax("illegal character escape", line_);
    append_utf8(c, out_);
  }

  void hexadecimal(size_t digits) {
    const std::string_view text = rest_.substr(2, digits);
    if (text.size() < digits ||
        text.find_first_not_of("0123456789abcdefABCDEF") != std::string_view::npos) {
      fail_syntax("truncated character escape", line_);
    }
    append(static_cast<char32_t>(std::stoul(std::string(text), nullptr, 16)));
    rest_.remove_prefix(2 + digits);
  }

  void octal() {
    char32_t c = 0;
    size_t n = 0;
    while (n < 3 && n + 1 < rest_.size() && rest_[n + 1] >= '0' && rest_[n + 1] <= '7') {
      c = c * 8 + static_cast<char32_t>(rest_[++n] - '0');
    }
    append(c);
    rest_.remove_prefix(1 + n);
  }

  void named() {
    const size_t close = rest_.find('}');
    if (rest_.substr(2, 1) != "{" || close == std::string_view::npos) {
      fail_syntax("malformed \\N character escape", line_);
    }
    UErrorCode status = U_ZERO_ERROR;
    const std::string name(rest_.substr(3, close - 3));
    const UChar32 c = u_charFromName(U_EXTENDED_CHAR_NAME, name.c_str(), &status);
    if (U_FAILURE(status)) fail_syntax("unknown Unicode character name", line_);
    append(static_cast<char32_t>(c));
    rest_.remove_prefix(close + 1);
  }

  std::string_view rest_;
  int line_;
  std::string out_;
};

}  // namespace

std::string unescape(std::string_view literal, int line) {
  return Unescaper(literal, line).run();
}

}  // namespace bp::text::jinja
