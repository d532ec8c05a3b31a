#pragma once
// All plugins in the plugin folders, by their manifests; no code is loaded.

#include <memory>
#include <string>
#include <vector>

#include "backplane/status.hpp"
#include "core/plugin/manifest.hpp"

namespace bp::plugin {

struct CatalogEntry {
  Manifest manifest;  // id and path only, where the manifest is broken
  bool usable = true;
  std::string reason;  // a sentence, where not usable
};

class Catalog {
 public:
  // Folders in order of precedence; a later plugin of an id already seen is not usable. A folder
  // that cannot be read is an error.
  static Result<Catalog> scan(const std::vector<std::string>& folders);

  [[nodiscard]] const std::vector<CatalogEntry>& entries() const { return entries_; }
  // The plugin of that id and kind; the error names the nearest id, or says why it cannot run here.
  Result<const CatalogEntry*> find(const std::string& id, const std::string& kind) const;
  // All usable plugins of a kind.
  [[nodiscard]] std::vector<const CatalogEntry*> of_kind(const std::string& kind) const;
  // The usable sampler plugin with a stage of that name ("plugin/stage" where ambiguous).
  Result<const CatalogEntry*> find_stage(const std::string& name) const;

 private:
  // That would have the stage, or is the plugin where one is named; or null.
  [[nodiscard]] const CatalogEntry* find_unusable(const std::string& stage,
                                                  const std::string& plugin) const;

  std::vector<CatalogEntry> entries_;
};

// lib/backplane beside the running program's bin folder (../lib/backplane), where built-in plugins
// are.
std::string installed_plugin_folder();

}  // namespace bp::plugin
