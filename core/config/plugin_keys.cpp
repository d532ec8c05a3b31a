#include "core/config/plugin_keys.hpp"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "core/base/nearest.hpp"

namespace bp::config {

using base::Yaml;
using plugin::FieldSpec;
using plugin::FieldType;
using plugin::ParamMap;
using plugin::ParamValue;

namespace {

Result<ParamValue> read_typed(const Yaml& node, FieldType type) {
  if (type == FieldType::kInt) {
    BP_ASSIGN(const int64_t i, node.as_int(std::numeric_limits<int64_t>::min(),
                                           std::numeric_limits<int64_t>::max()));
    return ParamValue(i);
  }
  if (type == FieldType::kFloat) {
    BP_ASSIGN(const double d, node.as_float());
    return ParamValue(d);
  }
  if (type == FieldType::kBool) {
    BP_ASSIGN(const bool b, node.as_bool());
    return ParamValue(b);
  }
  BP_ASSIGN(std::string s, node.as_string());
  return ParamValue(std::move(s));
}

struct Reader {
  const std::vector<FieldSpec>& fields;
  const std::vector<std::string>& core_keys;
  ParamMap out;

  // prefix: dotted name of the map being read, with a dot at its end, or empty.
  Status read(const Yaml& map, const std::string& prefix) {
    BP_ASSIGN(const auto members, map.members());
    for (const auto& [key, node] : members) {
      const std::string name = prefix + key;
      if (prefix.empty() && is_core_key(key)) continue;
      BP_TRY(read_member(node, name));
    }
    return {};
  }

  Status read_member(const Yaml& node, const std::string& name) {
    const auto same = [&](const FieldSpec& f) { return f.name == name; };
    const auto field = std::find_if(fields.begin(), fields.end(), same);
    if (field != fields.end()) {
      BP_ASSIGN(ParamValue value, read_field_value(node, *field));
      out.emplace(name, std::move(value));
      return {};
    }
    const auto inside = [&](const FieldSpec& f) { return f.name.starts_with(name + "."); };
    if (node.is_map() && std::any_of(fields.begin(), fields.end(), inside)) {
      return read(node, name + ".");
    }
    return node.error("unknown key" + base::nearest_hint(name, known()));
  }

  [[nodiscard]] bool is_core_key(const std::string& key) const {
    return std::find(core_keys.begin(), core_keys.end(), key) != core_keys.end();
  }
  [[nodiscard]] std::vector<std::string> known() const {
    std::vector<std::string> names = core_keys;
    for (const FieldSpec& f : fields) names.push_back(f.name);
    return names;
  }
};

}  // namespace

Result<ParamValue> read_field_value(const Yaml& node, const FieldSpec& field) {
  BP_ASSIGN(const ParamValue value, read_typed(node, field.type));
  auto checked = plugin::check_field(field, value);
  if (!checked.ok()) return node.error(checked.status().message());
  return checked;
}

Result<ParamMap> default_keys(const std::vector<FieldSpec>& fields) {
  ParamMap out;
  for (const FieldSpec& field : fields) {
    if (!field.fallback) {
      return invalid_argument(fmt::format("the key '{}' is required and missing", field.name));
    }
    out.emplace(field.name, *field.fallback);
  }
  return out;
}

Result<ParamMap> read_plugin_keys(const Yaml& section, const std::vector<std::string>& core_keys,
                                  const std::vector<FieldSpec>& fields) {
  Reader reader{fields, core_keys, {}};
  BP_TRY(reader.read(section, ""));
  for (const FieldSpec& field : fields) {
    if (reader.out.contains(field.name)) continue;
    if (!field.fallback) {
      return section.error(fmt::format("the key '{}' is required and missing", field.name));
    }
    reader.out.emplace(field.name, *field.fallback);
  }
  return std::move(reader.out);
}

}  // namespace bp::config
