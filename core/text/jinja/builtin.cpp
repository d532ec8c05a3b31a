#include "core/text/jinja/builtin.hpp"

#include <string>

#include "core/text/jinja/error.hpp"
#include "core/text/jinja/runtime.hpp"

namespace bp::text::jinja {
namespace {

// The parameter names of a Builtin, split.
struct Parameters {
  explicit Parameters(std::string_view list) {
    while (!list.empty()) {
      const size_t end = std::min(list.find(' '), list.size());
      const std::string_view name = list.substr(0, end);
      list.remove_prefix(std::min(end + 1, list.size()));
      if (name == "*") {
        variadic = true;
      } else {
        names[count++] = name;
      }
    }
  }
  size_t index_of(std::string_view name) const {
    return static_cast<size_t>(std::find(names, names + count, name) - names);
  }
  std::string_view names[5];
  size_t count = 0;
  bool variadic = false;
};

}  // namespace

BoundArguments::BoundArguments(const Builtin& builtin, Arguments arguments)
    : function_(builtin.name) {
  const Parameters parameters(builtin.parameters);
  const std::string function(builtin.name);
  for (size_t i = 0; i < arguments.positional.size(); ++i) {
    if (i < parameters.count) {
      values_[i] = std::move(arguments.positional[i]);
      present_[i] = true;
    } else if (parameters.variadic) {
      rest.positional.push_back(std::move(arguments.positional[i]));
    } else {
      fail(function + "() takes at most " + std::to_string(parameters.count) + " arguments (" +
           std::to_string(arguments.positional.size()) + " given)");
    }
  }
  for (auto& [name, value] : arguments.named) {
    const size_t i = parameters.index_of(name.str());
    if (i < parameters.count) {
      if (present_[i]) fail(function + "() got multiple values for argument '" + name.str() + "'");
      values_[i] = std::move(value);
      present_[i] = true;
    } else if (parameters.variadic) {
      rest.named.emplace_back(name, std::move(value));
    } else {
      fail(function + "() got an unexpected keyword argument '" + name.str() + "'");
    }
  }
  for (size_t i = 0; i < static_cast<size_t>(builtin.required); ++i) {
    if (!present_[i]) {
      fail(function + "() misses its argument '" + std::string(parameters.names[i]) + "'");
    }
  }
}

Integer BoundArguments::integer(size_t i, Integer fallback) const {
  if (!present_[i]) return fallback;
  require_defined(values_[i]);
  Integer storage = 0;
  const Integer* n = integer_or_bool(values_[i], storage);
  if (!n) {
    fail(std::string(function_) + "(): '" + type_name(values_[i]) +
         "' object cannot be interpreted as an integer");
  }
  return *n;
}

bool BoundArguments::flag(size_t i, bool fallback) const {
  return present_[i] ? truthy(values_[i]) : fallback;
}

std::string_view BoundArguments::text(size_t i, std::string_view fallback) const {
  if (is_none(i)) return fallback;
  require_defined(values_[i]);
  const Text* text = values_[i].get<Text>();
  if (!text) {
    fail(std::string(function_) + "() expects a str, not " + type_name(values_[i]));
  }
  return text->str();
}

Value call_builtin(Runtime& runtime, const Builtin& builtin, const Value& self,
                   Arguments arguments) {
  runtime.spend_values(arguments.positional.size() + arguments.named.size());
  BoundArguments bound(builtin, std::move(arguments));
  return builtin.function(runtime, self, bound);
}

Value BoundBuiltin::call(Runtime& runtime, Arguments arguments) {
  return call_builtin(runtime, *builtin, self, std::move(arguments));
}

const Builtin* find_in_table(std::span<const Builtin> table, std::string_view name) {
  auto it = std::lower_bound(table.begin(), table.end(), name,
                             [](const Builtin& b, std::string_view n) { return b.name < n; });
  return it != table.end() && it->name == name ? &*it : nullptr;
}

const Builtin* find_filter(std::string_view name) {
  for (auto table : {text_filters(), sequence_filters(), selection_filters(), number_filters(),
                     layout_filters()}) {
    if (const Builtin* builtin = find_in_table(table, name)) return builtin;
  }
  return nullptr;
}

const Builtin* find_method(const Value& value, std::string_view name) {
  if (value.get<Text>()) return find_in_table(text_methods(), name);
  const Object* object = value.any_object();
  return object ? find_in_table(container_methods(object->kind), name) : nullptr;
}

}  // namespace bp::text::jinja
