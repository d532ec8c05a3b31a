#pragma once
// Filters, tests, methods and global functions written in C++: tables of Builtin rows.

#include <algorithm>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "core/text/jinja/value.hpp"

namespace bp::text::jinja {

class Runtime;

// Arguments as the template wrote them.
struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<Text, Value>> named;
};

struct Callable : Object {
  static constexpr ObjectKind kKind = ObjectKind::kCallable;
  Callable() : Object(kKind) {}
  virtual Value call(Runtime& runtime, Arguments arguments) = 0;
};

struct Builtin;

// Arguments matched to the parameters of a Builtin.
class BoundArguments {
 public:
  BoundArguments(const Builtin& builtin, Arguments arguments);

  // Null where the argument is absent.
  const Value* find(size_t i) const { return present_[i] ? &values_[i] : nullptr; }
  const Value& at(size_t i) const { return values_[i]; }  // undefined where absent
  Integer integer(size_t i, Integer fallback) const;
  bool flag(size_t i, bool fallback) const;
  // Fails unless the argument is text, none or absent.
  std::string_view text(size_t i, std::string_view fallback) const;
  bool is_none(size_t i) const { return !present_[i] || values_[i].is_none(); }

  Arguments rest;  // beyond the parameters, where these end in "*"

 private:
  static constexpr size_t kMaxParameters = 5;
  Value values_[kMaxParameters];
  bool present_[kMaxParameters] = {};
  std::string_view function_;
};

using BuiltinFunction = Value (*)(Runtime& runtime, const Value& self, BoundArguments& arguments);

struct Builtin {
  std::string_view name;
  BuiltinFunction function;
  std::string_view parameters = "";  // names separated by spaces; "*" last takes any others
  int required = 0;                  // how many of them must be given
};

Value call_builtin(Runtime& runtime, const Builtin& builtin, const Value& self,
                   Arguments arguments);

// Tables are sorted by name.
constexpr bool is_sorted_table(std::span<const Builtin> table) {
  return std::is_sorted(table.begin(), table.end(),
                        [](const Builtin& a, const Builtin& b) { return a.name < b.name; });
}
const Builtin* find_in_table(std::span<const Builtin> table, std::string_view name);

const Builtin* find_filter(std::string_view name);
// Says that there is none, and why where it was left out.
std::string missing_filter(std::string_view name);
const Builtin* find_test(std::string_view name);
const Builtin* find_global(std::string_view name);
// The method `name` of the value's type, or null.
const Builtin* find_method(const Value& value, std::string_view name);

// One table per file.
std::span<const Builtin> text_filters();
std::span<const Builtin> layout_filters();
std::span<const Builtin> number_filters();
std::span<const Builtin> sequence_filters();
std::span<const Builtin> selection_filters();
std::span<const Builtin> text_methods();
std::span<const Builtin> container_methods(ObjectKind kind);

// A Builtin as a value: a global function, or a method with its object.
struct BoundBuiltin : Callable {
  BoundBuiltin(const Builtin* b, Value s) : builtin(b), self(std::move(s)) {}
  Value call(Runtime& runtime, Arguments arguments) override;
  const Builtin* builtin;
  Value self;
};

}  // namespace bp::text::jinja
