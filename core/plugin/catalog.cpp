#include "core/plugin/catalog.hpp"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/nearest.hpp"
#include "core/plugin/requirements.hpp"

namespace bp::plugin {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kSuffix = ".plugin.yaml";

// "cpu" of ".../cpu.plugin.yaml"
std::string file_stem(const fs::path& path) {
  const std::string name = path.filename().string();
  return name.substr(0, name.size() - kSuffix.size());
}

CatalogEntry make_entry(const fs::path& path) {
  CatalogEntry entry;
  auto manifest = read_manifest(path.string());
  if (!manifest.ok()) {
    entry.manifest.id = file_stem(path);
    entry.manifest.path = path.string();
    entry.usable = false;
    entry.reason = manifest.status().message();
    return entry;
  }
  entry.manifest = std::move(manifest).value();
  entry.reason = why_unusable(entry.manifest);
  entry.usable = entry.reason.empty();
  return entry;
}

Result<std::vector<fs::path>> manifests_in(const std::string& folder) {
  std::vector<fs::path> paths;
  std::error_code code;
  for (fs::directory_iterator it(folder, code), end; !code && it != end; it.increment(code)) {
    if (it->path().filename().string().ends_with(kSuffix)) paths.push_back(it->path());
  }
  if (code) {
    return io_error(fmt::format("plugin folder {} cannot be read: {}", folder, code.message()));
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace

Result<Catalog> Catalog::scan(const std::vector<std::string>& folders) {
  Catalog catalog;
  for (const std::string& folder : folders) {
    BP_ASSIGN(const std::vector<fs::path> paths, manifests_in(folder));
    for (const fs::path& path : paths) {
      CatalogEntry entry = make_entry(fs::absolute(path).lexically_normal());
      const auto same_id = [&](const CatalogEntry& e) {
        return e.manifest.id == entry.manifest.id;
      };
      const auto first = std::find_if(catalog.entries_.begin(), catalog.entries_.end(), same_id);
      if (first != catalog.entries_.end()) {
        if (first->manifest.path == entry.manifest.path) continue;
        entry.usable = false;
        entry.reason =
            fmt::format("its id '{}' is taken by {}", entry.manifest.id, first->manifest.path);
      }
      catalog.entries_.push_back(std::move(entry));
    }
  }
  return catalog;
}

Result<const CatalogEntry*> Catalog::find(const std::string& id, const std::string& kind) const {
  std::vector<std::string> ids;
  for (const CatalogEntry& entry : entries_) {
    if (entry.manifest.id == id) {
      if (!entry.usable) {
        return unsupported(fmt::format("plugin '{}' cannot be used: {}", id, entry.reason));
      }
      if (!entry.manifest.has_kind(kind)) {
        return invalid_argument(fmt::format("plugin '{}' is no {}; its kinds are {}", id, kind,
                                            fmt::join(entry.manifest.kinds, ", ")));
      }
      return &entry;
    }
    if (entry.manifest.has_kind(kind)) ids.push_back(entry.manifest.id);
  }
  return invalid_argument(
      fmt::format("no plugin '{}' of kind {}{}", id, kind, base::nearest_hint(id, ids)));
}

std::vector<const CatalogEntry*> Catalog::of_kind(const std::string& kind) const {
  std::vector<const CatalogEntry*> out;
  for (const CatalogEntry& entry : entries_) {
    if (entry.usable && entry.manifest.has_kind(kind)) out.push_back(&entry);
  }
  return out;
}

const CatalogEntry* Catalog::find_unusable(const std::string& stage,
                                           const std::string& plugin) const {
  const auto it = std::ranges::find_if(entries_, [&](const CatalogEntry& entry) {
    if (entry.usable) return false;
    if (!plugin.empty()) return entry.manifest.id == plugin;
    return std::ranges::find(entry.manifest.stages, stage, &StageManifest::name) !=
           entry.manifest.stages.end();
  });
  return it == entries_.end() ? nullptr : &*it;
}

Result<const CatalogEntry*> Catalog::find_stage(const std::string& name) const {
  const size_t slash = name.find('/');
  const std::string stage = slash == std::string::npos ? name : name.substr(slash + 1);
  const std::string plugin = slash == std::string::npos ? "" : name.substr(0, slash);
  const CatalogEntry* found = nullptr;
  std::vector<std::string> names;
  for (const CatalogEntry* entry : of_kind("bp.sampler/1")) {
    if (!plugin.empty() && entry->manifest.id != plugin) continue;
    for (const StageManifest& candidate : entry->manifest.stages) {
      names.push_back(candidate.name);
      if (candidate.name != stage) continue;
      if (found != nullptr) {
        return invalid_argument(fmt::format("stage '{}' is ambiguous: write {}/{} or {}/{}", name,
                                            found->manifest.id, stage, entry->manifest.id, stage));
      }
      found = entry;
    }
  }
  if (found != nullptr) return found;
  if (const CatalogEntry* broken = find_unusable(stage, plugin); broken != nullptr) {
    return unsupported(
        fmt::format("sampler stage '{}': plugin '{}', which has it, cannot be used: {}", name,
                    broken->manifest.id, broken->reason));
  }
  return invalid_argument(
      fmt::format("no sampler stage '{}'{}", name, base::nearest_hint(stage, names)));
}

std::string installed_plugin_folder() {
  std::error_code code;
  const fs::path program = fs::read_symlink("/proc/self/exe", code);
  return (program.parent_path().parent_path() / "lib" / "backplane").string();
}

}  // namespace bp::plugin
