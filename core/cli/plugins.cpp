// backplane plugins: what is installed, and why something cannot run here. Loads no code.

#include <cstdio>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/cli/commands.hpp"
#include "core/plugin/catalog.hpp"
#include "core/runtime/plugin_folders.hpp"

namespace bp::cli {

namespace {

using plugin::CatalogEntry;

nlohmann::ordered_json to_json(const CatalogEntry& entry, const std::string& kind) {
  const auto& m = entry.manifest;
  return {{"id", m.id},
          {"kind", kind},
          {"version", m.version},
          {"abi", fmt::format("{}.{}", m.abi_major, m.abi_minor)},
          {"path", m.library.empty() ? m.path : m.library},
          {"usable", entry.usable},
          {"reason", entry.reason}};
}

void print_row(const CatalogEntry& entry, const std::string& kind) {
  const auto& m = entry.manifest;
  fmt::print("{:<14} {:<16} {:<9} {}.{}  {}\n", m.id, kind, m.version, m.abi_major, m.abi_minor,
             entry.usable ? m.description : "cannot run here: " + entry.reason);
}

}  // namespace

Status plugins(const PluginsOptions& options) {
  BP_ASSIGN(const plugin::Catalog catalog, plugin::Catalog::scan(runtime::plugin_folders({})));
  auto rows = nlohmann::ordered_json::array();
  if (!options.json) fmt::print("{:<14} {:<16} {:<9} ABI\n", "ID", "KIND", "VERSION");
  for (const CatalogEntry& entry : catalog.entries()) {
    auto kinds = entry.manifest.kinds;
    if (kinds.empty()) kinds.emplace_back("unknown");
    for (const std::string& kind : kinds) {
      if (options.json) {
        rows.push_back(to_json(entry, kind));
      } else {
        print_row(entry, kind);
      }
    }
    for (const std::string& warning : entry.manifest.warnings) {
      fmt::print(stderr, "warning: {}\n", warning);
    }
  }
  if (options.json) fmt::print("{}\n", rows.dump(2));
  return {};
}

}  // namespace bp::cli
