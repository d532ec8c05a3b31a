#pragma once
// Values of expressions and hyper-parameters.

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace bp::model {

struct Value;
using List = std::vector<Value>;

struct Value : std::variant<std::monostate, bool, int64_t, double, std::string, List> {
  using variant::variant;
  using variant::operator=;

  [[nodiscard]] bool is_none() const { return std::holds_alternative<std::monostate>(*this); }
  [[nodiscard]] bool is_list() const { return std::holds_alternative<List>(*this); }
  [[nodiscard]] const List& list() const { return std::get<List>(*this); }

  // nullopt for another type. A number is an integer or a float, exact up to 2^53.
  [[nodiscard]] std::optional<bool> as_bool() const;
  [[nodiscard]] std::optional<int64_t> as_int() const;
  [[nodiscard]] std::optional<double> as_number() const;
  [[nodiscard]] const std::string* as_string() const { return std::get_if<std::string>(this); }

  // "none", "bool", "int", "float", "string" or "list".
  [[nodiscard]] const char* type_name() const;
  // As it would be written in an expression; long lists are cut.
  [[nodiscard]] std::string text() const;
};

// Numbers are equal by value whatever their type; all else by type and value.
bool equal(const Value& a, const Value& b);

}  // namespace bp::model
