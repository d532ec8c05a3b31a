#include "core/text/chat_output/python_call.hpp"

#include <utility>
#include <vector>

#include "core/text/chat_output/call_reader.hpp"
#include "core/text/chat_output/json_scanner.hpp"
#include "core/text/utf8.hpp"

namespace bp::text::chat {

namespace {

constexpr int kMaxDepth = 64;

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// Recursive descent over literals; every function answers whether it found what it reads.
class PythonParser {
 public:
  PythonParser(std::string_view text, const Tools& tools) : text_(text), tools_(tools) {}

  std::optional<PythonCall> parse() {
    PythonCall call;
    if (!read_call(call, /*may_print=*/true)) return std::nullopt;
    skip_space();
    if (at_ != text_.size()) return std::nullopt;
    return call;
  }

 private:
  void skip_space() {
    while (at_ < text_.size() && is_json_space(text_[at_])) ++at_;
  }
  [[nodiscard]] char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool eat(char c) {
    skip_space();
    if (peek() != c) return false;
    ++at_;
    return true;
  }

  std::string_view word() {
    skip_space();
    const size_t begin = at_;
    while (at_ < text_.size() && is_name_char(text_[at_])) ++at_;
    return text_.substr(begin, at_ - begin);
  }

  bool read_call(PythonCall& call, bool may_print) {
    const std::string_view name = word();
    if (name.empty() || !eat('(')) return false;
    if (may_print && name == "print" && find_tool(tools_, name) == nullptr) {
      return read_call(call, false) && eat(')');
    }
    call.name = python_function(name);
    call.arguments = "{";
    const Tool* tool = find_tool(tools_, call.name);
    for (size_t i = 0; !eat(')'); ++i) {
      if (i > 0 && !eat(',')) return false;
      if (i > 0 && eat(')')) break;
      if (i > 0) call.arguments += ", ";
      if (!read_argument(tool, i, call.arguments)) return false;
    }
    call.arguments += '}';
    return true;
  }

  bool read_argument(const Tool* tool, size_t i, std::string& out) {
    const size_t begin = at_;
    const std::string_view key = word();
    if (!key.empty() && eat('=')) {
      append_json_string(key, out);
    } else {
      at_ = begin;
      if (tool == nullptr || i >= tool->parameters.size()) return false;
      append_json_string(tool->parameters[i].name, out);
    }
    out += ": ";
    return read_value(out, 0);
  }

  bool read_value(std::string& out, int depth) {
    if (depth > kMaxDepth) return false;
    skip_space();
    const char c = peek();
    if (c == '"' || c == '\'') {
      std::string text;
      if (!read_strings(text)) return false;
      append_json_string(text, out);
      return true;
    }
    if (c == '[' || c == '(') return read_list(c == '[' ? ']' : ')', out, depth);
    if (c == '{') return read_dict(out, depth);
    return read_scalar(out);
  }

  bool read_scalar(std::string& out) {
    const size_t begin = at_;
    if (peek() == '-' || peek() == '+') ++at_;
    word();
    if (at_ < text_.size() && text_[at_] == '+') {  // 1e+5
      ++at_;
      word();
    }
    const std::string_view json = json_literal(text_.substr(begin, at_ - begin));
    if (!is_json(json)) return false;
    out += json;
    return true;
  }

  bool read_list(char end, std::string& out, int depth) {
    ++at_;
    out += '[';
    for (size_t i = 0; !eat(end); ++i) {
      if (i > 0 && !eat(',')) return false;
      if (i > 0 && eat(end)) break;
      if (i > 0) out += ", ";
      if (!read_value(out, depth + 1)) return false;
    }
    out += ']';
    return true;
  }

  bool read_dict(std::string& out, int depth) {
    ++at_;
    out += '{';
    for (size_t i = 0; !eat('}'); ++i) {
      if (i > 0 && !eat(',')) return false;
      if (i > 0 && eat('}')) break;
      if (i > 0) out += ", ";
      skip_space();
      if (peek() != '"' && peek() != '\'') return false;
      if (!read_value(out, depth + 1) || !eat(':')) return false;
      out += ": ";
      if (!read_value(out, depth + 1)) return false;
    }
    out += '}';
    return true;
  }

  // Neighbouring literals are one string.
  bool read_strings(std::string& out) {
    while (peek() == '"' || peek() == '\'') {
      if (!read_string(out)) return false;
      skip_space();
    }
    return true;
  }

  bool read_string(std::string& out) {
    const char quote = peek();
    const std::string_view triple = text_.substr(at_, 3);
    const bool is_triple = triple == std::string(3, quote);
    const std::string end(is_triple ? 3 : 1, quote);
    at_ += end.size();
    while (at_ < text_.size()) {
      if (text_.substr(at_).starts_with(end)) {
        at_ += end.size();
        return true;
      }
      if (text_[at_] == '\\') {
        if (!read_escape(out)) return false;
      } else {
        out += text_[at_++];
      }
    }
    return false;
  }

  bool read_escape(std::string& out) {
    if (++at_ == text_.size()) return false;
    const char c = text_[at_++];
    constexpr std::string_view kLetters = "nrtbfav0";
    constexpr std::string_view kValues("\n\r\t\b\f\a\v\0", 8);
    const size_t letter = kLetters.find(c);
    if (letter != std::string_view::npos) {
      out += kValues[letter];
    } else if (c == 'x' || c == 'u' || c == 'U') {
      return read_code_point(c == 'x' ? 2 : c == 'u' ? 4 : 8, out);
    } else if (c == '\\' || c == '\'' || c == '"') {
      out += c;
    } else if (c != '\n') {
      out += '\\';
      out += c;
    }
    return true;
  }

  bool read_code_point(int n_digits, std::string& out) {
    char32_t code = 0;
    for (int i = 0; i < n_digits; ++i) {
      const int digit = hex_value(peek());
      if (digit < 0) return false;
      code = code * 16 + static_cast<char32_t>(digit);
      ++at_;
    }
    if (code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) return false;
    append_utf8(code, out);
    return true;
  }

  std::string_view text_;
  const Tools& tools_;
  size_t at_ = 0;
};

}  // namespace

std::string_view python_function(std::string_view text) {
  constexpr std::string_view kMethod = ".call";
  std::string_view name = text.substr(0, text.find('('));
  if (name.ends_with(kMethod)) name.remove_suffix(kMethod.size());
  return name;
}

std::optional<PythonCall> parse_python_call(std::string_view text, const Tools& tools) {
  return PythonParser(text, tools).parse();
}

}  // namespace bp::text::chat
