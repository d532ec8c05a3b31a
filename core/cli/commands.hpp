#pragma once
// The commands, each in a file of its own name. Options are what the command line gave.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "backplane/status.hpp"
#include "core/cli/model_options.hpp"
#include "core/simulate/limits.hpp"

namespace bp::cli {

struct ServeOptions {
  std::string config;
  bool check = false;
};
Status serve(const ServeOptions& options);

struct RunOptions {
  std::string model;
  std::optional<std::string> prompt;  // nullopt: chat on a terminal
  bool raw = false;
  uint32_t max_tokens = 0;  // 0: to the end of the context
  std::optional<double> temperature;
  std::optional<uint64_t> seed;
  std::string backend;
  std::vector<std::string> backend_keys;  // "KEY=VALUE"
  std::vector<std::string> overrides;     // "OP=PLUGIN"
  uint32_t n_threads = 0;
  uint32_t context = 0;
};
Status run(const RunOptions& options);

struct PluginsOptions {
  bool json = false;
};
Status plugins(const PluginsOptions& options);

struct InspectOptions {
  std::string model;
  bool json = false;
};
Status inspect(const InspectOptions& options);

struct TokenizeOptions {
  std::string model;
  bool no_special = false;
  bool plain = false;
  bool decode = false;
};
Status tokenize(const TokenizeOptions& options);

struct RenderOptions {
  std::string model;  // or
  std::string template_file;
};
Status render(const RenderOptions& options);

struct LogitsOptions {
  ModelOptions model;
  std::vector<int32_t> tokens;
};
Status logits(const LogitsOptions& options);

struct PerplexityOptions {
  ModelOptions model;
  std::string file;
  uint32_t context = 512;
  bool json = false;
};
Status perplexity(const PerplexityOptions& options);

struct BenchOptions {
  ModelOptions model;
  uint32_t n_prompt = 512;
  uint32_t n_generate = 64;
  std::vector<uint32_t> sequences = {1, 4, 16};
  std::vector<uint32_t> depths = {0, 4096};
  bool json = false;
};
Status bench(const BenchOptions& options);

struct QuantizeOptions {
  std::string in;
  std::string out;
  std::string type;
  bool pure = false;
  bool dry_run = false;
  std::string imatrix;     // a file, or empty
  uint32_t n_threads = 0;  // 0: all
};
Status quantize(const QuantizeOptions& options);

struct ImatrixOptions {
  std::string model;
  std::string file;
  std::string output;
  std::string backend;
  uint32_t context = 512;
  uint32_t n_chunks = 0;   // 0: all
  uint32_t n_threads = 0;  // 0: all
};
Status imatrix(const ImatrixOptions& options);

struct SimulateOptions {
  std::string trace;
  std::string scheduler;
  std::vector<std::string> settings;     // KEY=VALUE of the scheduler's configuration
  std::vector<std::string> plugin_path;  // folders, before the installed one
  std::string cost;                      // empty: the trace's, or the default
  simulate::LimitOverrides limits;
  std::optional<uint64_t> seed;
  std::string plot;  // a file to write, or empty
  bool json = false;
};
Status simulate(const SimulateOptions& options);

}  // namespace bp::cli
