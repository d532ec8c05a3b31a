#include "core/text/jinja/loop.hpp"

namespace bp::text::jinja {

std::optional<Value> loop_attribute(const Loop& loop, std::string_view name) {
  const size_t i = loop.index0, n = loop.n;
  const auto integer = [](size_t value) { return Value::integer(static_cast<Integer>(value)); };
  if (name == "index") return integer(i + 1);
  if (name == "index0") return integer(i);
  if (name == "revindex") return integer(n - i);
  if (name == "revindex0") return integer(n - i - 1);
  if (name == "first") return Value::boolean(i == 0);
  if (name == "last") return Value::boolean(i + 1 == n);
  if (name == "length") return integer(n);
  if (name == "depth") return integer(static_cast<size_t>(loop.depth0) + 1);
  if (name == "depth0") return integer(static_cast<size_t>(loop.depth0));
  if (name == "previtem") {
    return i > 0 && i <= loop.items.size()
               ? loop.items[i - 1]
               : Value::undefined(Text("there is no previous item"), "");
  }
  if (name == "nextitem") {
    return i + 1 < loop.items.size() ? loop.items[i + 1]
                                     : Value::undefined(Text("there is no next item"), "");
  }
  return std::nullopt;
}

}  // namespace bp::text::jinja
