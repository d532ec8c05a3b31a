#include "core/runtime/runtime.hpp"

#include <spdlog/spdlog.h>

#include "backplane/ext/threads.h"
#include "backplane/format.h"
#include "core/base/cpu_topology.hpp"
#include "core/runtime/plugin_folders.hpp"

namespace bp::runtime {

uint32_t team_size(uint32_t asked, const base::CpuTopology& topology) {
  const uint32_t n_usable = topology.n_usable();
  if (asked == 0) return topology.n_cores();
  if (asked <= n_usable) return asked;
  spdlog::warn("{} threads are asked for, but this process may run {} at once: it computes with {}",
               asked, n_usable, n_usable);
  return n_usable;
}

Runtime::Runtime(plugin::Catalog catalog, uint32_t n_threads)
    : catalog_(std::move(catalog)), team_(team_size(n_threads, base::own_topology())) {
  host_.offer(BP_THREADS_ID, team_.extension());
}

Result<std::unique_ptr<Runtime>> Runtime::create(plugin::Catalog catalog, uint32_t n_threads) {
  return std::unique_ptr<Runtime>(new Runtime(std::move(catalog), n_threads));
}

Result<std::shared_ptr<const plugin::Library>> Runtime::library(const plugin::Manifest& manifest) {
  const std::lock_guard lock(mutex_);
  auto& slot = libraries_[manifest.path];
  if (slot == nullptr) {
    BP_ASSIGN(slot, plugin::Library::load(manifest));
  }
  return slot;
}

Result<std::vector<model::FormatChoice>> Runtime::formats(const std::string& format) {
  std::vector<const plugin::CatalogEntry*> entries = catalog_.of_kind(BP_FORMAT_ID);
  if (format != "auto") {
    BP_ASSIGN(const auto* chosen, catalog_.find(format, BP_FORMAT_ID));
    entries = {chosen};
  }
  if (entries.empty()) return invalid_argument("no format plugin is installed");
  std::vector<model::FormatChoice> choices;
  for (const auto* entry : entries) {
    BP_ASSIGN(const auto code, library(entry->manifest));
    choices.push_back({code->id(), code->factory<bp_format>(BP_FORMAT_ID)});
  }
  return choices;
}

Result<std::unique_ptr<model::ModelFile>> Runtime::open_model(const std::string& source,
                                                              const std::string& format) {
  BP_ASSIGN(const auto choices, formats(format));
  return model::ModelFile::open(source, choices, format, host_.get());
}

Result<std::unique_ptr<Runtime>> default_runtime(uint32_t n_threads) {
  BP_ASSIGN(plugin::Catalog catalog, plugin::Catalog::scan(plugin_folders({})));
  return Runtime::create(std::move(catalog), n_threads);
}

}  // namespace bp::runtime
