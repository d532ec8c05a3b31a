#include "core/text/jinja/lexer.hpp"

#include <algorithm>
#include <optional>

#include "core/text/jinja/error.hpp"
#include "core/text/jinja/text_ops.hpp"
#include "core/text/jinja/unescape.hpp"

namespace bp::text::jinja {
namespace {

constexpr size_t kNone = std::string::npos;

bool is_digit_char(char c) {
  return c >= '0' && c <= '9';
}
bool is_name_char(char c) {
  return is_digit_char(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         static_cast<unsigned char>(c) >= 0x80;
}

// Line ends become \n, and one at the very end is dropped.
std::string normalize(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      out += source[i];
      continue;
    }
    out += '\n';
    if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(normalize(source)) {}

  std::vector<Token> run() {
    while (at_ < source_.size()) text();
    emit(TokenKind::kEnd, "");
    return std::move(tokens_);
  }

 private:
  void emit(TokenKind kind, std::string text) { tokens_.push_back({kind, std::move(text), line_}); }

  // Moves on by n bytes and counts lines.
  void advance(size_t n) {
    line_ +=
        static_cast<int>(std::count(source_.begin() + static_cast<std::ptrdiff_t>(at_),
                                    source_.begin() + static_cast<std::ptrdiff_t>(at_ + n), '\n'));
    at_ += n;
  }
  bool looking_at(std::string_view what, size_t offset = 0) const {
    return source_.compare(at_ + std::min(offset, source_.size() - at_), what.size(), what) == 0;
  }
  size_t spaces_at(size_t i) const {
    const std::string_view rest = std::string_view(source_).substr(i);
    return rest.size() - strip(rest, Side::kLeft).size();
  }
  void skip_spaces() { advance(spaces_at(at_)); }

  // Whether the text begins at the start of a line, for lstrip_blocks.
  void after_tag() { line_starting_ = at_ > 0 && source_[at_ - 1] == '\n'; }

  // Text up to the next tag, and that tag.
  void text() {
    size_t open = at_;
    while ((open = source_.find('{', open)) != kNone) {
      const char next = open + 1 < source_.size() ? source_[open + 1] : '\0';
      if (next == '{' || next == '%' || next == '#') break;
      ++open;
    }
    if (open == kNone) {
      emit(TokenKind::kData, source_.substr(at_));
      advance(source_.size() - at_);
      return;
    }
    const char kind = source_[open + 1];
    const char sign = open + 2 < source_.size() ? source_[open + 2] : '\0';
    data(open, sign, kind != '{');
    advance(2 + (sign == '-' || sign == '+' ? 1 : 0));
    line_starting_ = false;
    if (kind == '#') return comment();
    if (kind == '{') return tag(TokenKind::kVariableBegin);
    if (const size_t n = raw_tag_length("raw")) return raw(n);
    tag(TokenKind::kBlockBegin);
  }

  // Emits the text before a tag at `end`, stripped as the tag asks.
  void data(size_t end, char sign, bool lstrip) {
    std::string_view part = std::string_view(source_).substr(at_, end - at_);
    if (sign == '-') {
      part = strip(part, Side::kRight);
    } else if (sign != '+' && lstrip) {
      const size_t line_start = part.rfind('\n') + 1;
      if ((line_start > 0 || line_starting_) && strip(part.substr(line_start)).empty()) {
        part = part.substr(0, line_start);
      }
    }
    if (!part.empty()) emit(TokenKind::kData, std::string(part));
    advance(end - at_);
  }

  // Ends a tag whose closing mark of two characters is next, perhaps after a sign.
  void close_tag(bool trims_newline) {
    const char sign = looking_at("-") ? '-' : looking_at("+") ? '+' : '\0';
    advance(sign ? 3 : 2);
    if (sign == '-') {
      skip_spaces();
    } else if (!sign && trims_newline && looking_at("\n")) {
      advance(1);
    }
    after_tag();
  }

  void comment() {
    const int begin = line_;
    const size_t end = source_.find("#}", at_);
    if (end == kNone) fail_syntax("Missing end of comment tag", begin);
    const bool sign = end > at_ && (source_[end - 1] == '-' || source_[end - 1] == '+');
    advance(end - at_ - (sign ? 1 : 0));
    close_tag(true);
  }

  // Bytes from at_ to the closing mark of a `raw` or `endraw` tag, or 0 if it is another tag.
  size_t raw_tag_length(std::string_view name) const {
    size_t i = at_ + spaces_at(at_);
    if (source_.compare(i, name.size(), name) != 0) return 0;
    i += name.size();
    i += spaces_at(i);
    const std::string_view rest = std::string_view(source_).substr(i);
    const bool ends = rest.substr(0, 2) == "%}" || rest.substr(0, 3) == "-%}" ||
                      (name == "endraw" && rest.substr(0, 3) == "+%}");
    return ends ? i - at_ : 0;
  }

  void raw(size_t length) {
    const int begin = line_;
    advance(length);
    close_tag(false);
    for (size_t open = at_; (open = source_.find("{%", open)) != kNone; ++open) {
      const size_t text_begin = at_;
      const char sign = open + 2 < source_.size() ? source_[open + 2] : '\0';
      at_ = open + 2 + (sign == '-' || sign == '+' ? 1 : 0);
      const size_t n = raw_tag_length("endraw");
      const size_t tag_at = at_;
      at_ = text_begin;
      if (n == 0) continue;
      data(open, sign, true);
      advance(tag_at + n - at_);
      return close_tag(true);
    }
    fail_syntax("Missing end of raw directive", begin);
  }

  // The tokens of {{ }} or {% %}.
  void tag(TokenKind begin) {
    const int first_line = line_;
    const bool block = begin == TokenKind::kBlockBegin;
    const std::string_view close = block ? "%}" : "}}";
    emit(begin, "");
    brackets_.clear();
    while (true) {
      skip_spaces();
      if (at_ == source_.size()) fail_syntax("the tag is not closed", first_line);
      const bool signed_close =
          (looking_at("-") || (block && looking_at("+"))) && looking_at(close, 1);
      if (brackets_.empty() && (signed_close || looking_at(close))) break;
      token();
    }
    emit(block ? TokenKind::kBlockEnd : TokenKind::kVariableEnd, "");
    close_tag(block);
  }

  void token() {
    const char c = source_[at_];
    if (is_digit_char(c)) return number();
    if (is_name_char(c)) return name();
    if (c == '"' || c == '\'') return string(c);
    op();
  }

  size_t count_digits(size_t i) const {
    const size_t begin = i;
    while (i < source_.size() && (is_digit_char(source_[i]) ||
                                  (source_[i] == '_' && i > begin && i + 1 < source_.size() &&
                                   is_digit_char(source_[i + 1])))) {
      ++i;
    }
    return i - begin;
  }

  // Length of a float at i, or 0.
  size_t float_length(size_t begin) const {
    if (begin > 0 && source_[begin - 1] == '.') return 0;
    size_t i = begin + count_digits(begin);
    bool is_float = false;
    if (i < source_.size() && source_[i] == '.' && count_digits(i + 1) > 0) {
      i += 1 + count_digits(i + 1);
      is_float = true;
    }
    if (i < source_.size() && (source_[i] == 'e' || source_[i] == 'E')) {
      const size_t sign =
          i + 1 < source_.size() && (source_[i + 1] == '+' || source_[i + 1] == '-');
      if (const size_t n = count_digits(i + 1 + sign)) return i + 1 + sign + n - begin;
    }
    return is_float ? i - begin : 0;
  }

  size_t integer_length(size_t begin) const {
    const char prefix = begin + 1 < source_.size() ? source_[begin + 1] : '\0';
    const bool based =
        source_[begin] == '0' && std::string_view("xXoObB").find(prefix) != kNone && prefix != '\0';
    if (!based) return count_digits(begin);
    size_t i = begin + 2;
    while (i < source_.size() &&
           (std::isxdigit(static_cast<unsigned char>(source_[i])) || source_[i] == '_')) {
      ++i;
    }
    return i - begin;
  }

  void number() {
    const size_t as_float = float_length(at_);
    const size_t n = as_float ? as_float : integer_length(at_);
    std::string digits = source_.substr(at_, n);
    std::erase(digits, '_');
    emit(as_float ? TokenKind::kFloat : TokenKind::kInteger, std::move(digits));
    advance(n);
  }

  void name() {
    size_t n = 0;
    while (at_ + n < source_.size() && is_name_char(source_[at_ + n])) ++n;
    emit(TokenKind::kName, source_.substr(at_, n));
    advance(n);
  }

  void string(char quote) {
    size_t end = at_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) fail_syntax("the string is not closed", line_);
    emit(TokenKind::kString,
         unescape(std::string_view(source_).substr(at_ + 1, end - at_ - 1), line_));
    advance(end + 1 - at_);
  }

  void op() {
    constexpr std::string_view kTwo[] = {"//", "**", "==", "!=", ">=", "<="};
    constexpr std::string_view kOne = "+-/*%~[](){}><=.:|,;";
    size_t n = 0;
    for (std::string_view candidate : kTwo) {
      if (looking_at(candidate)) n = 2;
    }
    if (n == 0 && kOne.find(source_[at_]) != kNone) n = 1;
    if (n == 0) {
      const size_t bytes = utf8_length(static_cast<unsigned char>(source_[at_]));
      fail_syntax("unexpected char '" + source_.substr(at_, bytes) + "'", line_);
    }
    if (n == 1) balance(source_[at_]);
    emit(TokenKind::kOperator, source_.substr(at_, n));
    advance(n);
  }

  void balance(char c) {
    constexpr std::string_view kOpen = "{([", kClose = "})]";
    if (const size_t i = kOpen.find(c); i != kNone) {
      brackets_ += kClose[i];
    } else if (kClose.find(c) != kNone) {
      if (brackets_.empty()) fail_syntax(std::string("unexpected '") + c + "'", line_);
      if (brackets_.back() != c) {
        fail_syntax(std::string("unexpected '") + c + "', expected '" + brackets_.back() + "'",
                    line_);
      }
      brackets_.pop_back();
    }
  }

  std::string source_;
  size_t at_ = 0;
  int line_ = 1;
  bool line_starting_ = true;
  std::string brackets_;  // closing marks awaited
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source) {
  return Lexer(source).run();
}

}  // namespace bp::text::jinja
