#include "core/plugin/library.hpp"

#include <dlfcn.h>

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <boost/dll/shared_library.hpp>

#include "backplane/plugin.hpp"
#include "backplane/sampler.h"
#include "core/plugin/library_file.hpp"

namespace bp::plugin {

namespace {

// Loads with every symbol bound, invisible to others, and for good: boost::dll closes a library
// when its handle goes, so the library is pinned before that.
Result<bp_plugin_query_fn> open_for_good(const std::string& file) {
  BP_ASSIGN(const std::string path, path_of_current_code(file));
  boost::dll::fs::error_code code;
  boost::dll::shared_library library(
      boost::dll::fs::path(path),
      boost::dll::load_mode::rtld_now | boost::dll::load_mode::rtld_local, code);
  if (code) {  // an invented one: the reason is the loader's
    const char* const reason = dlerror();
    return io_error(
        fmt::format("cannot be loaded: {}", reason == nullptr ? code.message() : reason));
  }
  if (!library.has("bp_plugin_query")) {
    return invalid_argument("exports no bp_plugin_query: it is no Backplane plugin");
  }
  if (dlopen(path.c_str(), RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE) == nullptr) {
    return internal_error(fmt::format("cannot be pinned in memory: {}", dlerror()));
  }
  return &library.get<const bp_plugin*(uint32_t)>("bp_plugin_query");
}

std::vector<std::string> kinds_of(const bp_plugin& plugin) {
  std::vector<std::string> kinds;
  for (uint32_t i = 0; plugin.kinds != nullptr && i < plugin.n_kinds; ++i) {
    kinds.emplace_back(plugin.kinds[i] == nullptr ? "" : plugin.kinds[i]);
  }
  std::sort(kinds.begin(), kinds.end());
  return kinds;
}

void compare(std::vector<std::string>& wrong, const char* what, const std::string& manifest,
             const std::string& library) {
  if (manifest == library) return;
  wrong.push_back(
      fmt::format("{} is '{}' in the manifest, '{}' in the library", what, manifest, library));
}

std::string text(const char* s) {
  return s == nullptr ? "" : s;
}

std::string stage_names(const bp_plugin& plugin) {
  const void* factory = plugin.get_factory(BP_SAMPLER_ID);
  if (factory == nullptr) return {};
  const auto table = copy_growable(static_cast<const bp_sampler_factory*>(factory));
  std::vector<std::string> names;
  for (uint32_t i = 0; table.stages != nullptr && i < table.n_stages; ++i) {
    names.push_back(text(table.stages[i].name));
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

void compare_factories(std::vector<std::string>& wrong, const Manifest& manifest,
                       const bp_plugin& plugin) {
  for (const std::string& kind : manifest.kinds) {
    if (plugin.get_factory(kind.c_str()) == nullptr) {
      wrong.push_back(fmt::format("get_factory(\"{}\") gives no factory", kind));
    }
  }
  if (!manifest.has_kind(BP_SAMPLER_ID)) return;
  std::vector<std::string> names;
  for (const StageManifest& stage : manifest.stages) names.push_back(stage.name);
  compare(wrong, "the list of stages", fmt::format("{}", fmt::join(names, ", ")),
          stage_names(plugin));
}

std::vector<std::string> disagreements(const Manifest& manifest, const bp_plugin& plugin) {
  std::vector<std::string> wrong;
  compare(wrong, "id", manifest.id, text(plugin.id));
  compare(wrong, "version", manifest.version, text(plugin.version));
  compare(wrong, "abi", fmt::format("{}.{}", manifest.abi_major, manifest.abi_minor),
          fmt::format("{}.{}", plugin.abi_major, plugin.abi_minor));
  std::vector<std::string> kinds = manifest.kinds;
  std::sort(kinds.begin(), kinds.end());
  compare(wrong, "the list of kinds", fmt::format("{}", fmt::join(kinds, ", ")),
          fmt::format("{}", fmt::join(kinds_of(plugin), ", ")));
  if (plugin.get_factory == nullptr) {
    wrong.emplace_back("the required function bp_plugin.get_factory is missing");
  } else {
    compare_factories(wrong, manifest, plugin);
  }
  return wrong;
}

// The query's own exceptions are a plugin's bug; they must not end the host.
Result<const bp_plugin*> call_query(bp_plugin_query_fn query) {
  try {
    return query(BP_ABI_MAJOR);
  } catch (...) {
    return internal_error("bp_plugin_query threw an exception");
  }
}

}  // namespace

Library::Library(const bp_plugin& plugin) : id_(text(plugin.id)), plugin_(plugin) {}

const void* Library::find_factory(const char* kind) const {
  return plugin_.get_factory(kind);
}

Result<std::shared_ptr<const Library>> Library::load(const Manifest& manifest) {
  const std::string who = fmt::format("plugin '{}' ({})", manifest.id, manifest.library);
  auto query = open_for_good(manifest.library);
  if (!query.ok()) return query.status().with_context(who);
  auto answer = call_query(*query);
  if (!answer.ok()) return answer.status().with_context(who);
  if (*answer == nullptr) {
    return unsupported(fmt::format("{}: it refuses ABI major {}", who, BP_ABI_MAJOR));
  }
  const bp_plugin plugin = copy_growable(*answer);
  if (plugin.abi_major != BP_ABI_MAJOR) {
    return unsupported(fmt::format("{}: its ABI major is {}, this program's is {}", who,
                                   plugin.abi_major, BP_ABI_MAJOR));
  }
  if (const auto wrong = disagreements(manifest, plugin); !wrong.empty()) {
    return invalid_argument(fmt::format("{}: {}", who, fmt::join(wrong, "; ")));
  }
  return std::shared_ptr<const Library>(new Library(plugin));
}

}  // namespace bp::plugin
