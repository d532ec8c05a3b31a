#include "core/plugin/manifest.hpp"

#include <algorithm>
#include <filesystem>
#include <limits>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/nearest.hpp"
#include "core/base/read_file.hpp"
#include "core/base/yaml.hpp"

namespace bp::plugin {

namespace {

using base::Yaml;

constexpr int64_t kSchema = 1;

Result<std::string> required_string(const Yaml& yaml, const std::string& key) {
  const auto node = yaml.find(key);
  if (!node) return yaml.error(fmt::format("the key '{}' is missing", key));
  return node->as_string();
}

Status read_strings(const Yaml& yaml, const std::string& key, std::vector<std::string>& out) {
  if (const auto node = yaml.find(key)) {
    BP_ASSIGN(out, node->as_strings());
  }
  return {};
}

// Ids name files and YAML keys: lower-case letters, digits, '-', '_' and '.'.
bool is_well_formed_id(const std::string& id) {
  return !id.empty() && id.size() <= 64 && std::all_of(id.begin(), id.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
  });
}

// "noun.dotted/N"
bool is_well_formed_kind(const std::string& kind) {
  const size_t slash = kind.find('/');
  if (slash == std::string::npos || slash == 0 || slash + 1 == kind.size()) return false;
  return std::all_of(kind.begin() + static_cast<ptrdiff_t>(slash) + 1, kind.end(),
                     [](char c) { return c >= '0' && c <= '9'; });
}

Result<FieldType> read_type(const Yaml& yaml) {
  BP_ASSIGN(const std::string name, required_string(yaml, "type"));
  if (name == "int") return FieldType::kInt;
  if (name == "float") return FieldType::kFloat;
  if (name == "bool") return FieldType::kBool;
  if (name == "string") return FieldType::kString;
  return yaml.error(fmt::format("type '{}' is none of int, float, bool, string", name));
}

Result<ParamValue> read_value(const Yaml& yaml, FieldType type) {
  constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  switch (type) {
    case FieldType::kInt: {
      BP_ASSIGN(const int64_t i, yaml.as_int(kMin, kMax));
      return ParamValue(i);
    }
    case FieldType::kFloat: {
      BP_ASSIGN(const double d, yaml.as_float());
      return ParamValue(d);
    }
    case FieldType::kBool: {
      BP_ASSIGN(const bool b, yaml.as_bool());
      return ParamValue(b);
    }
    case FieldType::kString:
      break;
  }
  BP_ASSIGN(std::string s, yaml.as_string());
  return ParamValue(std::move(s));
}

Result<FieldSpec> read_field(const std::string& name, const Yaml& yaml) {
  BP_TRY(yaml.expect_keys({"type", "default", "min", "max", "values", "help"}));
  FieldSpec field;
  field.name = name;
  BP_ASSIGN(field.type, read_type(yaml));
  if (const auto min = yaml.find("min")) {
    BP_ASSIGN(field.min, min->as_float());
  }
  if (const auto max = yaml.find("max")) {
    BP_ASSIGN(field.max, max->as_float());
  }
  if (const auto values = yaml.find("values")) {
    BP_ASSIGN(const auto items, values->items());
    for (const Yaml& item : items) {
      BP_ASSIGN(ParamValue value, read_value(item, field.type));
      field.values.push_back(std::move(value));
    }
  }
  if (const auto help = yaml.find("help")) {
    BP_ASSIGN(field.help, help->as_string());
  }
  if (const auto fallback = yaml.find("default")) {
    BP_ASSIGN(const ParamValue value, read_value(*fallback, field.type));
    auto checked = check_field(field, value);
    if (!checked.ok()) return fallback->error(checked.status().message());
    field.fallback = std::move(checked).value();
  }
  return field;
}

Status read_fields(const Yaml& yaml, const std::string& key, std::vector<FieldSpec>& out) {
  const auto node = yaml.find(key);
  if (!node) return {};
  BP_ASSIGN(const auto members, node->members());
  for (const auto& [name, value] : members) {
    BP_ASSIGN(FieldSpec field, read_field(name, value));
    out.push_back(std::move(field));
  }
  return {};
}

Status read_stages(const Yaml& yaml, std::vector<StageManifest>& out) {
  const auto node = yaml.find("stages");
  if (!node) return {};
  BP_ASSIGN(const auto items, node->items());
  for (const Yaml& item : items) {
    BP_TRY(item.expect_keys({"name", "help", "fields"}));
    StageManifest stage;
    BP_ASSIGN(stage.name, required_string(item, "name"));
    if (const auto help = item.find("help")) {
      BP_ASSIGN(stage.help, help->as_string());
    }
    BP_TRY(read_fields(item, "fields", stage.fields));
    out.push_back(std::move(stage));
  }
  return {};
}

Status read_abi(const Yaml& yaml, Manifest& manifest) {
  BP_ASSIGN(const std::string text, required_string(yaml, "abi"));
  unsigned major = 0, minor = 0;
  char rest = 0;
  if (std::sscanf(text.c_str(), "%u.%u%c", &major, &minor, &rest) != 2) {
    return yaml.find("abi")->error(fmt::format("must be MAJOR.MINOR, not '{}'", text));
  }
  manifest.abi_major = major;
  manifest.abi_minor = minor;
  return {};
}

Status read_identity(const Yaml& yaml, Manifest& manifest) {
  BP_ASSIGN(manifest.id, required_string(yaml, "id"));
  if (!is_well_formed_id(manifest.id)) {
    return yaml.find("id")->error(
        fmt::format("'{}' is no id: lower-case letters, digits, '-', '_', '.'", manifest.id));
  }
  BP_ASSIGN(manifest.version, required_string(yaml, "version"));
  BP_TRY(read_abi(yaml, manifest));
  BP_TRY(read_strings(yaml, "kinds", manifest.kinds));
  if (manifest.kinds.empty()) return yaml.error("the key 'kinds' is missing or empty");
  for (const std::string& kind : manifest.kinds) {
    if (!is_well_formed_kind(kind)) {
      return yaml.find("kinds")->error(fmt::format("'{}' is no kind, as bp.backend/1 is", kind));
    }
  }
  return {};
}

Status read_library(const Yaml& yaml, Manifest& manifest) {
  std::string library = manifest.id + ".so";
  if (const auto node = yaml.find("library")) {
    BP_ASSIGN(library, node->as_string());
    if (library.empty() || library.find('/') != std::string::npos) {
      return node->error("must be a file name without a folder; libraries lie beside manifests");
    }
  }
  manifest.library = std::filesystem::path(manifest.path).replace_filename(library).string();
  return {};
}

// An unknown key may come from a newer SDK: a warning, not an error.
Status warn_of_unknown_keys(const Yaml& yaml, std::vector<std::string>& warnings) {
  static const std::vector<std::string> kKnown = {"schema", "id",      "version",     "abi",
                                                  "kinds",  "library", "description", "requires",
                                                  "config", "stages",  "overridable"};
  BP_ASSIGN(const auto members, yaml.members());
  for (const auto& [name, value] : members) {
    if (std::find(kKnown.begin(), kKnown.end(), name) != kKnown.end()) continue;
    warnings.push_back(value.error("unknown key" + base::nearest_hint(name, kKnown)).message());
  }
  return {};
}

std::string describe(const ParamValue& value) {
  return std::visit([](const auto& v) { return fmt::format("{}", v); }, value);
}

}  // namespace

bool Manifest::has_kind(const std::string& kind) const {
  return std::find(kinds.begin(), kinds.end(), kind) != kinds.end();
}

Result<Manifest> read_manifest(const std::string& path) {
  BP_TRY(base::expect_regular_file(path));
  BP_ASSIGN(const Yaml yaml, Yaml::load_file(path));
  if (!yaml.is_map()) return yaml.error("a plugin manifest is a map of keys and values");
  Manifest manifest;
  manifest.path = std::filesystem::absolute(path).lexically_normal().string();
  const auto schema = yaml.find("schema");
  if (!schema) return yaml.error("the key 'schema' is missing");
  BP_ASSIGN(const int64_t version, schema->as_int(1, std::numeric_limits<int32_t>::max()));
  if (version > kSchema) {
    return schema->error(fmt::format("schema {} is newer than this program's {}; update Backplane",
                                     version, kSchema));
  }
  BP_TRY(read_identity(yaml, manifest));
  BP_TRY(read_library(yaml, manifest));
  if (const auto description = yaml.find("description")) {
    BP_ASSIGN(manifest.description, description->as_string());
  }
  if (const auto needs = yaml.find("requires")) {
    BP_TRY(needs->expect_keys({"cpu", "libraries"}));
    BP_TRY(read_strings(*needs, "cpu", manifest.required_cpu));
    BP_TRY(read_strings(*needs, "libraries", manifest.required_libraries));
  }
  BP_TRY(read_fields(yaml, "config", manifest.config));
  BP_TRY(read_stages(yaml, manifest.stages));
  BP_TRY(read_strings(yaml, "overridable", manifest.overridable));
  BP_TRY(warn_of_unknown_keys(yaml, manifest.warnings));
  return manifest;
}

namespace {

Result<ParamValue> check_type(const FieldSpec& field, const ParamValue& value) {
  const bool is_int = std::holds_alternative<int64_t>(value);
  switch (field.type) {
    case FieldType::kInt:
      if (is_int) return value;
      return invalid_argument(fmt::format("must be a whole number, not '{}'", describe(value)));
    case FieldType::kFloat:
      if (is_int) return ParamValue(static_cast<double>(std::get<int64_t>(value)));
      if (std::holds_alternative<double>(value)) return value;
      return invalid_argument(fmt::format("must be a number, not '{}'", describe(value)));
    case FieldType::kBool:
      if (std::holds_alternative<bool>(value)) return value;
      return invalid_argument(fmt::format("must be true or false, not '{}'", describe(value)));
    case FieldType::kString:
      break;
  }
  if (std::holds_alternative<std::string>(value)) return value;
  return invalid_argument(fmt::format("must be text, not '{}'", describe(value)));
}

Status check_range(const FieldSpec& field, double number, const ParamValue& value) {
  const bool above = !field.min || number >= *field.min;
  const bool below = !field.max || number <= *field.max;
  if (above && below) return {};
  if (field.min && field.max) {
    return invalid_argument(
        fmt::format("must be from {} to {}, not {}", *field.min, *field.max, describe(value)));
  }
  return invalid_argument(fmt::format("must be {} {}, not {}", field.min ? "at least" : "at most",
                                      field.min ? *field.min : *field.max, describe(value)));
}

}  // namespace

Result<ParamValue> check_field(const FieldSpec& field, const ParamValue& value) {
  BP_ASSIGN(ParamValue typed, check_type(field, value));
  if (const auto* i = std::get_if<int64_t>(&typed)) {
    BP_TRY(check_range(field, static_cast<double>(*i), typed));
  } else if (const auto* d = std::get_if<double>(&typed)) {
    BP_TRY(check_range(field, *d, typed));
  }
  const auto& allowed = field.values;
  if (allowed.empty() || std::find(allowed.begin(), allowed.end(), typed) != allowed.end()) {
    return typed;
  }
  std::vector<std::string> names;
  for (const ParamValue& v : allowed) names.push_back(describe(v));
  return invalid_argument(fmt::format("'{}' is none of {}{}", describe(typed),
                                      fmt::join(names, ", "),
                                      base::nearest_suggestion(describe(typed), names)));
}

}  // namespace bp::plugin
