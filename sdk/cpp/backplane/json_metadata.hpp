#pragma once
// Metadata that JSON files became: a nested member's key is the names on the way to it, joined by
// dots. What has no metadata type stands in lists of keys, so that it is not taken for absent.

#include <string>
#include <string_view>

#include "backplane/metadata.hpp"
#include "backplane/status.hpp"
#include "backplane/text.hpp"

namespace bp {

// Keys whose value is null: where a configuration lacks a key its class has a default, where it
// says null there is none.
inline constexpr std::string_view kNullKeys = "huggingface.null_keys";
// Keys whose value is an object, or an array of anything but numbers, strings or booleans alone;
// and in the same order how those values begin.
inline constexpr std::string_view kUntypedKeys = "huggingface.untyped_keys";
inline constexpr std::string_view kUntypedValues = "huggingface.untyped_values";

namespace metadata_detail {

// The value of a key of kUntypedKeys; empty for any other.
[[nodiscard]] inline std::string_view untyped_value(MetadataView metadata, std::string_view key) {
  const auto keys = metadata.array<std::string_view>(kUntypedKeys);
  const auto values = metadata.array<std::string_view>(kUntypedValues);
  for (uint64_t i = 0; keys.ok() && values.ok() && i < keys->size(); ++i) {
    if ((*keys)[i] == key && i < values->size()) return (*values)[i];
  }
  return {};
}

[[nodiscard]] inline Status wrong_kind(std::string_view key, const std::string& expected,
                                       std::string_view found) {
  return invalid_argument("metadata \"" + std::string(key) + "\": expected " + expected +
                          ", found " + std::string(found));
}

// Of what is in an object's place; false is written for none, as null is.
[[nodiscard]] inline Status check_object(MetadataView metadata, std::string_view key,
                                         std::string_view member) {
  const std::string expected = "an object with " + quote(member);
  const bp_metadata* entry = metadata.find(key);
  if (entry == nullptr) {
    const std::string_view value = untyped_value(metadata, key);
    return value.starts_with('[') ? wrong_kind(key, expected, value) : Status();
  }
  if (entry->is_array != 0) return wrong_kind(key, expected, "an array");
  if (element<bool>(*entry, 0) == false) return {};
  const auto text = element<std::string_view>(*entry, 0);
  return wrong_kind(key, expected, text ? "string " + quote(*text) : describe(*entry, 0));
}

}  // namespace metadata_detail

// Of a key without an entry: whether it is absent or null, and not of a kind that has no type, nor
// within something that is no object.
[[nodiscard]] inline Status check_absent(MetadataView metadata, std::string_view key) {
  if (const auto value = metadata_detail::untyped_value(metadata, key); !value.empty()) {
    return metadata_detail::wrong_kind(key, "a plain value or a list of them", value);
  }
  for (size_t dot = key.find('.'); dot != std::string_view::npos; dot = key.find('.', dot + 1)) {
    BP_TRY(metadata_detail::check_object(metadata, key.substr(0, dot), key.substr(dot + 1)));
  }
  return {};
}

// The fallback stands in for what is absent or null; a value of another kind is an error.
template <MetadataValue T>
[[nodiscard]] Result<T> json_value_or(MetadataView metadata, std::string_view key, T fallback) {
  if (!metadata.contains(key)) BP_TRY(check_absent(metadata, key));
  return metadata.get_or<T>(key, fallback);
}

}  // namespace bp
