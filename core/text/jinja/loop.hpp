#pragma once
// `loop` inside a for statement.

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "core/text/jinja/value.hpp"

namespace bp::text::jinja {

struct For;
struct Scope;

struct Loop : Object {
  static constexpr ObjectKind kKind = ObjectKind::kLoop;
  explicit Loop(std::vector<Value> v) : Object(kKind), items(std::move(v)), n(items.size()) {}

  std::vector<Value> items;  // none once the loop has ended
  size_t n;                  // how many they are
  size_t index0 = 0;
  int depth0 = 0;                  // of recursion
  const For* recursive = nullptr;  // the statement that loop(...) runs again, in `outer`
  std::shared_ptr<Scope> outer;
  std::optional<Value> last_changed;
};

// index, first, length, previtem and the other attributes that are not methods.
std::optional<Value> loop_attribute(const Loop& loop, std::string_view name);

}  // namespace bp::text::jinja
