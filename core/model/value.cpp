#include "core/model/value.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace bp::model {

std::optional<bool> Value::as_bool() const {
  const bool* b = std::get_if<bool>(this);
  return b == nullptr ? std::nullopt : std::optional(*b);
}

std::optional<int64_t> Value::as_int() const {
  const int64_t* i = std::get_if<int64_t>(this);
  return i == nullptr ? std::nullopt : std::optional(*i);
}

std::optional<double> Value::as_number() const {
  if (const auto i = as_int()) return static_cast<double>(*i);
  const double* d = std::get_if<double>(this);
  return d == nullptr ? std::nullopt : std::optional(*d);
}

const char* Value::type_name() const {
  constexpr const char* kNames[] = {"none", "bool", "int", "float", "string", "list"};
  return kNames[index()];
}

std::string Value::text() const {
  if (const auto b = as_bool()) return *b ? "true" : "false";
  if (const auto i = as_int()) return std::to_string(*i);
  if (const auto d = as_number()) return fmt::format("{}", *d);
  if (const std::string* s = as_string()) return '"' + *s + '"';
  if (!is_list()) return "none";
  constexpr size_t kShown = 8;
  std::string out = "[";
  for (size_t i = 0; i < std::min(kShown, list().size()); ++i) {
    out += (i == 0 ? "" : ", ") + list()[i].text();
  }
  return out + (list().size() > kShown ? ", ...]" : "]");
}

bool equal(const Value& a, const Value& b) {
  if (a.as_int() && b.as_int()) return *a.as_int() == *b.as_int();
  if (a.as_number() && b.as_number()) return *a.as_number() == *b.as_number();
  if (a.index() != b.index()) return false;
  if (a.is_list()) {
    return std::equal(a.list().begin(), a.list().end(), b.list().begin(), b.list().end(), equal);
  }
  if (const std::string* s = a.as_string()) return *s == *b.as_string();
  return a.is_none() || *a.as_bool() == *b.as_bool();
}

}  // namespace bp::model
