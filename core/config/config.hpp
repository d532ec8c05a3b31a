#pragma once
// The one YAML file that says what to serve (docs/configuration.md), checked as a whole: unknown
// keys, types, ranges, plugins and their own keys. An error names file, line, column, key and
// nearest name.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "backplane/dtype.h"
#include "backplane/status.hpp"
#include "core/plugin/params.hpp"

namespace bp::plugin {
class Catalog;
}

namespace bp::config {

struct ApiKey {
  std::string key;  // read from key_file, without surrounding white space; never logged
  std::string tenant;
  int32_t priority = 0;
};

struct Server {
  std::string host = "127.0.0.1";
  uint16_t port = 8080;
  std::vector<ApiKey> api_keys;  // empty: no authorisation
  uint32_t max_queue = 256;      // waiting requests per model
  uint32_t grace_s = 30;
  uint64_t max_body_bytes = 16u << 20;
  bool request_templates = false;
};

// Kernels of another plugin for one op of a backend.
struct Override {
  std::string op;  // "linear"
  std::string plugin;
  plugin::ParamMap params;  // the plugin's own keys, with defaults
};

struct Backend {
  std::string plugin = "cpu";
  uint32_t n_threads = 0;            // 0: auto
  bp_dtype k_dtype = BP_DTYPE_NONE;  // NONE: auto
  bp_dtype v_dtype = BP_DTYPE_NONE;
  std::optional<uint64_t> kv_bytes;  // nullopt: auto
  uint32_t block_size = 0;           // 0: auto
  std::string block_size_place;      // "FILE:LINE" that asks for it
  uint64_t swap_bytes = 0;           // of host memory for preempted sequences; 0: none
  std::string cache_folder;          // absolute; empty: beside the model
  plugin::ParamMap params;           // the plugin's own keys, with defaults
  std::vector<Override> overrides;   // each op once
};

struct Scheduler {
  std::string plugin = "fcfs";
  uint32_t max_step_tokens = 512;
  uint32_t max_sequences = 64;
  plugin::ParamMap params;
};

struct Sampler {
  std::vector<std::string> chain = {"penalties", "top_k", "typical_p",
                                    "top_p",     "min_p", "temperature"};
  plugin::ParamMap defaults;  // request fields
};

struct Model {
  std::string id;
  std::string source;           // absolute
  std::string format = "auto";  // or a plugin's id
  uint32_t context = 0;         // 0: the model's own, bounded by what memory allows
  std::string context_place;    // "FILE:LINE" that asks for it, or another name for who does
  std::string quantize;         // weights while they are loaded: "Q8_0"; empty: as they are
  Backend backend;
  Scheduler scheduler;
  Sampler sampler;
  std::string chat_system;           // `chat: system`: for conversations without a system message
  std::string chat_output = "auto";  // `chat: output`: a dialect's name
  std::string chat_template;         // `chat: template`: source; empty: the model's own
  bool prefix_cache = true;
  bool device_sampling = true;  // where the backend offers it
};

struct Config {
  std::string path;
  Server server;
  std::vector<std::string> plugin_paths;  // absolute, besides the installed ones
  std::vector<Model> models;              // at least one
};

// Reads only `plugins: path`, so that the catalog can be made before load().
Result<std::vector<std::string>> read_plugin_paths(const std::string& path);
// Everything; `catalog` supplies the plugins' own keys and the stages' request fields.
Result<Config> load(const std::string& path, const plugin::Catalog& catalog);
// A model as `run`, `logits` and `bench` need it: every default, plugin keys included.
Result<Model> default_model(const std::string& source, const std::string& backend,
                            const plugin::Catalog& catalog);

// Sets keys of a backend's section from a command line: "KEY=VALUE" each.
Status set_backend_keys(const std::vector<std::string>& entries, const plugin::Catalog& catalog,
                        Backend& backend);
// Sets a backend's overrides from a command line: "OP=PLUGIN" each.
Status add_overrides(const std::vector<std::string>& entries, const plugin::Catalog& catalog,
                     Backend& backend);

}  // namespace bp::config
