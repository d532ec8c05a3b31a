#include "core/config/override_section.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "backplane/backend.h"
#include "backplane/op_schema.hpp"
#include "core/base/nearest.hpp"
#include "core/config/plugin_keys.hpp"
#include "core/plugin/catalog.hpp"

namespace bp::config {

using base::Yaml;
using plugin::Catalog;
using plugin::Manifest;

namespace {

bool touches_state(const OpSchema& schema) {
  return std::any_of(schema.attributes.begin(), schema.attributes.end(), [](const auto& field) {
    return field.name == "kv_slot" || field.name == "state_slot";
  });
}

// Whether kernels of other plugins may compute the op on this backend; the error has no place.
Status check_op(const std::string& op, const Manifest& base) {
  const OpSchema* schema = find_op_schema(op);
  if (schema != nullptr && touches_state(*schema)) {
    return invalid_argument(fmt::format(
        "'{}' touches the KV cache or state, which is the backend's own: it cannot be overridden",
        op));
  }
  const auto& known = base.overridable;
  if (known.empty()) {
    return invalid_argument(
        fmt::format("the backend '{}' runs no kernels of other plugins", base.id));
  }
  if (std::find(known.begin(), known.end(), op) != known.end()) return {};
  return invalid_argument(fmt::format("{} '{}' cannot be overridden on the backend '{}'{}",
                                      schema == nullptr ? "the unknown op" : "the op", op, base.id,
                                      base::nearest_hint(op, known)));
}

Result<Override> read_entry(const std::string& op, const Yaml& node, const Manifest& base,
                            const Catalog& catalog) {
  if (const Status status = check_op(op, base); !status.ok()) return node.error(status.message());
  const Yaml name = node.find("plugin").value_or(node);
  Override out;
  out.op = op;
  if (node.is_map() && !node.find("plugin")) return node.error("the key 'plugin' is missing");
  BP_ASSIGN(out.plugin, name.as_string());
  const auto entry = catalog.find(out.plugin, BP_OP_KERNELS_ID);
  if (!entry.ok()) return name.error(entry.status().message());
  const auto& fields = (*entry)->manifest.config;
  auto params = node.is_map() ? read_plugin_keys(node, {"plugin"}, fields) : default_keys(fields);
  if (!params.ok()) return node.is_map() ? params.status() : node.error(params.status().message());
  out.params = std::move(params).value();
  return out;
}

}  // namespace

Result<std::vector<Override>> read_overrides(const Yaml& section, const Manifest& base,
                                             const Catalog& catalog) {
  BP_ASSIGN(const auto members, section.members());
  std::vector<Override> out;
  for (const auto& [op, node] : members) {
    BP_ASSIGN(Override entry, read_entry(op, node, base, catalog));
    out.push_back(std::move(entry));
  }
  return out;
}

Status add_overrides(const std::vector<std::string>& entries, const Catalog& catalog,
                     Backend& backend) {
  BP_ASSIGN(const auto* base, catalog.find(backend.plugin, BP_BACKEND_ID));
  std::string text;
  for (const std::string& entry : entries) {
    const size_t equals = entry.find('=');
    if (equals == std::string::npos) {
      return invalid_argument(
          fmt::format("--override '{}' is not OP=PLUGIN, as linear=my-kernels is", entry));
    }
    text += fmt::format("{}: {}\n", entry.substr(0, equals), entry.substr(equals + 1));
  }
  BP_ASSIGN(const Yaml section, Yaml::load_text(text, "--override"));
  BP_ASSIGN(backend.overrides, read_overrides(section, base->manifest, catalog));
  return {};
}

}  // namespace bp::config
