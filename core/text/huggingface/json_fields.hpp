#pragma once
// Members of tokenizer.json's objects. A null member is an absent one.

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "backplane/status.hpp"

namespace bp::text::huggingface {

using Json = nlohmann::json;

// Of a text from a file, whose objects and arrays may nest so deep that copying them, which
// recurses, ends the process. `name` says which text it is in errors.
Result<Json> parse_object(std::string_view text, std::string_view name);

[[nodiscard]] inline const Json* member(const Json& object, const char* name) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(name);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

[[nodiscard]] inline std::string text_of(const Json& object, const char* name,
                                         std::string_view fallback = "") {
  const Json* value = member(object, name);
  return value != nullptr && value->is_string() ? value->get<std::string>() : std::string(fallback);
}

[[nodiscard]] inline bool flag_of(const Json& object, const char* name, bool fallback = false) {
  const Json* value = member(object, name);
  return value != nullptr && value->is_boolean() ? value->get<bool>() : fallback;
}

[[nodiscard]] inline int64_t number_of(const Json& object, const char* name, int64_t fallback) {
  const Json* value = member(object, name);
  return value != nullptr && value->is_number_integer() ? value->get<int64_t>() : fallback;
}

// Whether the members of a step, model or added token that are read are of their kinds, as they
// are by name; what is read below takes others for absent.
Status check_kinds(const Json& object);

[[nodiscard]] inline std::string type_of(const Json& object) {
  return text_of(object, "type");
}

inline Status unknown_type(const char* what, const std::string& type) {
  return unsupported("tokenizer.json: " + std::string(what) + " of type \"" + type +
                     "\" is not supported");
}

// Calls visit(const Json&) for the object itself, or for each entry of a "Sequence" of `list`.
template <class Visit>
Status for_each_step(const Json& object, const char* list, const Visit& visit, int depth = 0) {
  BP_TRY(check_kinds(object));
  if (type_of(object) != "Sequence") return visit(object);
  const Json* steps = member(object, list);
  if (steps == nullptr || !steps->is_array() || depth > 8) {
    return invalid_argument(std::string("tokenizer.json: a Sequence without a list of ") + list);
  }
  for (const Json& step : *steps) BP_TRY(for_each_step(step, list, visit, depth + 1));
  return {};
}

}  // namespace bp::text::huggingface
