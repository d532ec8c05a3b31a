#pragma once
// What all models of a process share: the plugin catalog, loaded libraries, the host and its team
// of workers. Several runtimes in one process are independent.

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backplane/status.hpp"
#include "core/model/model_file.hpp"
#include "core/plugin/catalog.hpp"
#include "core/plugin/host.hpp"
#include "core/plugin/library.hpp"
#include "core/plugin/thread_team.hpp"
#include "core/runtime/kv_promises.hpp"

namespace bp::base {
struct CpuTopology;
}

namespace bp::runtime {

// Workers to compute with where `asked` are wanted; 0: one for each core. No more than run at once,
// which is said in the log: workers that take turns on a processor wait for each other in every
// phase of a step.
[[nodiscard]] uint32_t team_size(uint32_t asked, const base::CpuTopology& topology);

class Runtime {
 public:
  // n_threads: see team_size.
  static Result<std::unique_ptr<Runtime>> create(plugin::Catalog catalog, uint32_t n_threads);

  [[nodiscard]] const plugin::Catalog& catalog() const { return catalog_; }
  [[nodiscard]] const bp_host* host() const { return host_.get(); }
  [[nodiscard]] plugin::ThreadTeam& team() { return team_; }
  [[nodiscard]] const bp_threads* threads() const { return team_.extension(); }
  [[nodiscard]] uint32_t n_threads() const { return team_.n_threads(); }
  [[nodiscard]] KvPromises& kv_promises() { return kv_promises_; }

  // The plugin's code, loaded once. [any-thread]
  Result<std::shared_ptr<const plugin::Library>> library(const plugin::Manifest& manifest);
  // The format plugin of that id, or with `auto` all of them. [any-thread]
  Result<std::vector<model::FormatChoice>> formats(const std::string& format);
  // [any-thread]
  Result<std::unique_ptr<model::ModelFile>> open_model(const std::string& source,
                                                       const std::string& format);

 private:
  Runtime(plugin::Catalog catalog, uint32_t n_threads);

  plugin::Catalog catalog_;
  plugin::ThreadTeam team_;
  plugin::HostServices host_;
  KvPromises kv_promises_;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<const plugin::Library>> libraries_;  // by manifest path
};

// For commands: the catalog of the installed plugins and $BACKPLANE_PLUGIN_PATH.
Result<std::unique_ptr<Runtime>> default_runtime(uint32_t n_threads);

}  // namespace bp::runtime
