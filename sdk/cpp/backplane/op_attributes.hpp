#pragma once
// Attribute structs by schema: made with defaults, set and read by field name, and copied from
// another build's version of the struct.

#include <algorithm>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backplane/op_schema.hpp"
#include "backplane/status.hpp"

namespace bp {

// An attribute struct's bytes, aligned for it; empty where the kind has none.
using AttributeBuffer = std::vector<uint64_t>;

namespace detail {

template <class T>
void store(void* attributes, uint32_t offset, T value) {
  std::memcpy(static_cast<char*>(attributes) + offset, &value, sizeof value);
}
template <class T>
[[nodiscard]] T load(const void* attributes, uint32_t offset) {
  T value;
  std::memcpy(&value, static_cast<const char*>(attributes) + offset, sizeof value);
  return value;
}

}  // namespace detail

// `attributes` is a struct of this build. An integer field takes whole numbers in its range only.
inline Status set_attribute(const AttributeSchema& field, void* attributes, double value) {
  if (field.type == AttributeType::kF32) {
    detail::store(attributes, field.offset, static_cast<float>(value));
    return {};
  }
  const bool wide = field.type == AttributeType::kU64;
  const double limit = wide ? 9007199254740992.0 : std::numeric_limits<uint32_t>::max();
  const bool known =
      field.enum_names.empty() || value < static_cast<double>(field.enum_names.size());
  if (!(value >= 0 && value <= limit && known) ||
      value != static_cast<double>(static_cast<uint64_t>(value))) {
    return invalid_argument("attribute " + std::string(field.name) + ": " + std::to_string(value) +
                            " is no valid value");
  }
  if (wide) {
    detail::store(attributes, field.offset, static_cast<uint64_t>(value));
  } else {
    detail::store(attributes, field.offset, static_cast<uint32_t>(value));
  }
  return {};
}

// The value of an enum field by its name.
inline Status set_attribute(const AttributeSchema& field, void* attributes, std::string_view name) {
  std::string known;
  for (uint32_t i = 0; i < field.enum_names.size(); ++i) {
    if (field.enum_names[i] == name) {
      detail::store(attributes, field.offset, i);
      return {};
    }
    known += (i == 0 ? "" : ", ") + std::string(field.enum_names[i]);
  }
  if (known.empty()) known = "a number";
  return invalid_argument("attribute " + std::string(field.name) + ": \"" + std::string(name) +
                          "\" is unknown; expected " + known);
}

[[nodiscard]] inline double get_attribute(const AttributeSchema& field, const void* attributes) {
  switch (field.type) {
    case AttributeType::kF32:
      return detail::load<float>(attributes, field.offset);
    case AttributeType::kU64:
      return static_cast<double>(detail::load<uint64_t>(attributes, field.offset));
    default:
      return detail::load<uint32_t>(attributes, field.offset);
  }
}

// Required fields are zero.
[[nodiscard]] inline AttributeBuffer default_attributes(const OpSchema& schema) {
  AttributeBuffer buffer((schema.attributes_bytes + 7) / 8);
  if (buffer.empty()) return buffer;
  detail::store(buffer.data(), 0, schema.attributes_bytes);
  for (const AttributeSchema& field : schema.attributes) {
    if (field.default_value == 0) continue;
    // Defaults of the table are valid values.
    static_cast<void>(set_attribute(field, buffer.data(), field.default_value));
  }
  return buffer;
}

// This build's version of `other` (may be null): fields beyond other's struct_size have their
// defaults.
[[nodiscard]] inline AttributeBuffer read_attributes(const OpSchema& schema, const void* other) {
  AttributeBuffer buffer = default_attributes(schema);
  if (buffer.empty() || other == nullptr) return buffer;
  const uint32_t size = detail::load<uint32_t>(other, 0);
  std::memcpy(buffer.data(), other,
              size < schema.attributes_bytes ? size : schema.attributes_bytes);
  return buffer;
}

// The lowest version of the op that has the weights filled and the attributes (may be null) set.
[[nodiscard]] inline uint32_t version_needed(const OpSchema& schema,
                                             std::span<const uint32_t> weights,
                                             const void* attributes) {
  uint32_t version = 1;
  for (size_t i = 0; i < weights.size() && i < schema.weights.size(); ++i) {
    if (weights[i] != BP_NONE) version = std::max(version, schema.weights[i].since);
  }
  for (const AttributeSchema& field : schema.attributes) {
    const bool is_set =
        attributes != nullptr && get_attribute(field, attributes) != field.default_value;
    if (is_set) version = std::max(version, field.since);
  }
  return version;
}

// Of an op of `version` the weights that it knows; those behind them are absent.
[[nodiscard]] inline uint32_t weights_known(const OpSchema& schema, uint32_t version) {
  auto n = static_cast<uint32_t>(schema.weights.size());
  while (n > 0 && schema.weights[n - 1].since > version) --n;
  return n;
}

// As read_attributes, for the struct type A of the op's kind.
template <class A>
[[nodiscard]] A attributes_of(const bp_op& op) {
  A attributes{};
  const OpSchema* schema = find_op_schema(op.kind);
  if (schema == nullptr || schema->attributes_bytes != sizeof(A)) return attributes;
  std::memcpy(&attributes, read_attributes(*schema, op.attributes).data(), sizeof(A));
  return attributes;
}

}  // namespace bp
