#pragma once
// The expression language of op specs: integers, floats, "strings", names, + - * / // %,
// comparisons, and/or/not, has(slot), `a if c else b`, parentheses. `/` divides exactly as floats,
// `//` and `%` round down.

#include <charconv>
#include <cmath>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "backplane/status.hpp"

namespace bp {

using ExpressionValue = std::variant<double, std::string>;

// What names mean. An empty function knows no name.
struct ExpressionScope {
  std::function<std::optional<ExpressionValue>(std::string_view name)> name;
  std::function<bool(std::string_view slot)> has;
};

class Expression {
 public:
  static Result<ExpressionValue> evaluate(std::string_view text, const ExpressionScope& scope) {
    Expression e(text, scope);
    ExpressionValue value = e.ternary();
    e.skip_spaces();
    if (e.error_.empty() && !e.rest_.empty()) {
      e.fail("unexpected \"" + std::string(e.rest_) + "\"");
    }
    if (e.error_.empty()) return value;
    return invalid_argument("expression \"" + std::string(text) + "\": " + e.error_);
  }

  static Result<double> number(std::string_view text, const ExpressionScope& scope) {
    BP_ASSIGN(const ExpressionValue value, evaluate(text, scope));
    if (const double* x = std::get_if<double>(&value)) return *x;
    return invalid_argument("expression \"" + std::string(text) + "\" is a string, not a number");
  }

  static Result<bool> condition(std::string_view text, const ExpressionScope& scope) {
    BP_ASSIGN(const double x, number(text, scope));
    return x != 0;
  }

 private:
  static constexpr int kMaxDepth = 64;

  Expression(std::string_view text, const ExpressionScope& scope) : rest_(text), scope_(scope) {}

  static bool is_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  }

  void fail(std::string message) {
    if (error_.empty()) error_ = std::move(message);
    rest_ = {};
  }
  void skip_spaces() {
    while (!rest_.empty() && rest_.front() == ' ') rest_.remove_prefix(1);
  }
  bool take(std::string_view token) {
    skip_spaces();
    if (!rest_.starts_with(token)) return false;
    const bool word = is_word(token.back());
    if (word && rest_.size() > token.size() && is_word(rest_[token.size()])) return false;
    rest_.remove_prefix(token.size());
    return true;
  }
  void expect(std::string_view token) {
    if (!take(token)) fail("expected \"" + std::string(token) + "\"");
  }
  double as_number(const ExpressionValue& value) {
    if (const double* x = std::get_if<double>(&value)) return *x;
    fail("a string stands where a number is needed");
    return 0;
  }

  // Both branches are evaluated, so that an error in either is found.
  ExpressionValue ternary() {
    if (++depth_ > kMaxDepth) fail("nested too deeply");
    ExpressionValue value = either();
    if (take("if")) {
      const bool condition = as_number(either()) != 0;
      expect("else");
      ExpressionValue otherwise = ternary();
      if (!condition) value = std::move(otherwise);
    }
    --depth_;
    return value;
  }
  ExpressionValue either() {
    ExpressionValue left = both();
    while (take("or")) {
      const ExpressionValue right = both();
      left = static_cast<double>(as_number(left) != 0 || as_number(right) != 0);
    }
    return left;
  }
  ExpressionValue both() {
    ExpressionValue left = negation();
    while (take("and")) {
      const ExpressionValue right = negation();
      left = static_cast<double>(as_number(left) != 0 && as_number(right) != 0);
    }
    return left;
  }
  ExpressionValue negation() {
    bool negate = false, any = false;
    for (; take("not"); any = true) negate = !negate;
    ExpressionValue value = comparison();
    if (!any) return value;
    return static_cast<double>((as_number(value) != 0) != negate);
  }
  ExpressionValue comparison() {
    ExpressionValue left = sum();
    for (const char* op : {"==", "!=", "<=", ">=", "<", ">"}) {
      if (!take(op)) continue;
      return compare(op, left, sum());
    }
    return left;
  }
  ExpressionValue compare(std::string_view op, const ExpressionValue& a, const ExpressionValue& b) {
    if (op == "==") return static_cast<double>(a == b);
    if (op == "!=") return static_cast<double>(a != b);
    const double x = as_number(a), y = as_number(b);
    if (op == "<=") return static_cast<double>(x <= y);
    if (op == ">=") return static_cast<double>(x >= y);
    return static_cast<double>(op == "<" ? x < y : x > y);
  }
  ExpressionValue sum() {
    ExpressionValue left = product();
    while (true) {
      if (take("+")) {
        left = as_number(left) + as_number(product());
      } else if (take("-")) {
        left = as_number(left) - as_number(product());
      } else {
        return left;
      }
    }
  }
  ExpressionValue product() {
    ExpressionValue left = unary();
    while (true) {
      if (take("*")) {
        left = as_number(left) * as_number(unary());
      } else if (take("//")) {
        left = std::floor(quotient(as_number(left), as_number(unary())));
      } else if (take("/")) {
        left = quotient(as_number(left), as_number(unary()));
      } else if (take("%")) {
        const double a = as_number(left), b = as_number(unary());
        left = a - b * std::floor(quotient(a, b));
      } else {
        return left;
      }
    }
  }
  double quotient(double a, double b) {
    if (b == 0) fail("division by zero");
    return b == 0 ? 0 : a / b;
  }
  ExpressionValue unary() {
    bool negative = false, any = false;
    for (; take("-"); any = true) negative = !negative;
    ExpressionValue value = primary();
    if (any) value = negative ? -as_number(value) : as_number(value);
    return value;
  }
  ExpressionValue primary() {
    skip_spaces();
    if (rest_.empty()) {
      fail("ends too early");
      return 0.0;
    }
    if (take("(")) {
      ExpressionValue value = ternary();
      expect(")");
      return value;
    }
    if (rest_.front() == '"') return string();
    if (rest_.front() >= '0' && rest_.front() <= '9') return literal();
    return name();
  }
  ExpressionValue string() {
    const size_t end = rest_.find('"', 1);
    if (end == std::string_view::npos) {
      fail("a string without its closing quote");
      return 0.0;
    }
    std::string value(rest_.substr(1, end - 1));
    rest_.remove_prefix(end + 1);
    return value;
  }
  ExpressionValue literal() {
    double value = 0;
    const auto [end, code] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (code != std::errc()) fail("not a number");
    if (!rest_.empty()) rest_.remove_prefix(static_cast<size_t>(end - rest_.data()));
    return value;
  }
  ExpressionValue name() {
    const std::string_view word = take_word();
    if (word.empty()) {
      fail("unexpected \"" + std::string(rest_) + "\"");
      return 0.0;
    }
    if (word == "true" || word == "false") return static_cast<double>(word == "true");
    if (word == "has") {
      expect("(");
      const std::string_view slot = take_word();
      expect(")");
      return static_cast<double>(scope_.has && scope_.has(slot));
    }
    if (scope_.name) {
      if (auto value = scope_.name(word)) return *std::move(value);
    }
    fail("unknown name \"" + std::string(word) + "\"");
    return 0.0;
  }
  std::string_view take_word() {
    skip_spaces();
    size_t n = 0;
    while (n < rest_.size() && is_word(rest_[n])) ++n;
    const std::string_view word = rest_.substr(0, n);
    rest_.remove_prefix(n);
    return word;
  }

  std::string_view rest_;
  const ExpressionScope& scope_;
  std::string error_;
  int depth_ = 0;
};

}  // namespace bp
