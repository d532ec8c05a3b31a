#pragma once
// What commands that compute straight on an executable are told of the model.

#include <cstdint>
#include <string>
#include <vector>

#include "backplane/status.hpp"
#include "core/config/config.hpp"

namespace bp::cli {

struct ModelOptions {
  std::string model;
  std::string backend;
  std::string kv_types;                   // as config::set_kv_types takes them; empty: auto
  std::string quantize;                   // as config::Model has it; empty: weights as they are
  std::vector<std::string> backend_keys;  // "KEY=VALUE"
  std::vector<std::string> overrides;     // "OP=PLUGIN"
  uint32_t n_threads = 0;                 // 0: all
};

// The configuration entry that they make.
Result<config::Model> configured(const ModelOptions& options, const plugin::Catalog& catalog);

}  // namespace bp::cli
