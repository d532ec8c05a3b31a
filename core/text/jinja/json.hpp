#pragma once
// JSON into values, and values as json.dumps writes them.

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "core/text/jinja/value.hpp"

namespace bp::text::jinja {

class Runtime;

Value from_json(Runtime& runtime, const nlohmann::ordered_json& json);

struct JsonStyle {
  bool ensure_ascii = false;
  bool sort_keys = false;
  std::optional<std::string> indent;  // per level; without it everything stands on one line
  std::string item_separator = ", ";
  std::string key_separator = ": ";
};
std::string to_json(Runtime& runtime, const Value& value, const JsonStyle& style);

}  // namespace bp::text::jinja
