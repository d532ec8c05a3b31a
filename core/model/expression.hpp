#pragma once
// The expressions of architecture files and op bodies: integers, floats, "strings", true, false,
// none, names, + - * / // %, comparisons, and, or, not, `a if c else b`, list[i], and the functions
// min, max, abs, sqrt, log, exp, floor, len, contains. `/` gives a float, `//` and `%` round down;
// `and`, `or` and `if` need bools and leave the other side unevaluated. f(name) for any other f
// asks the scope about a name.
//
// Parsed once and evaluated often; depth and length are bounded, so evaluation is too.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "backplane/status.hpp"
#include "core/model/value.hpp"

namespace bp::model {

// What names mean.
class Scope {
 public:
  virtual ~Scope() = default;
  [[nodiscard]] virtual std::optional<Value> find(std::string_view name) const = 0;
  // function(name), e.g. has(bias); nullopt where the scope knows no such function or name.
  [[nodiscard]] virtual std::optional<Value> query(std::string_view function,
                                                   std::string_view name) const = 0;
};

class Expression {
 public:
  // Errors are "column N of `TEXT`: reason", as are those of evaluation.
  static Result<Expression> parse(std::string text);

  Result<Value> evaluate(const Scope& scope) const;
  Result<bool> condition(const Scope& scope) const;
  Result<int64_t> integer(const Scope& scope) const;
  Result<double> number(const Scope& scope) const;

  [[nodiscard]] const std::string& text() const;

  struct Node;
  struct Tree;

 private:
  explicit Expression(std::shared_ptr<const Tree> tree) : tree_(std::move(tree)) {}
  [[nodiscard]] Status wrong_type(const char* expected, const Value& found) const;

  std::shared_ptr<const Tree> tree_;
};

}  // namespace bp::model
