#pragma once
// A model to a GGUF file, mostly with fewer bits a weight.

#include <cstdint>
#include <string>
#include <vector>

#include "backplane/backend.h"
#include "backplane/ext/threads.h"
#include "backplane/status.hpp"
#include "core/convert/importance.hpp"
#include "core/model/model_file.hpp"
#include "core/model/resources.hpp"
#include "core/quantize/mixture.hpp"

namespace bp::convert {

struct QuantizeOptions {
  const quantize::Mixture* mixture = nullptr;
  bool pure = false;  // the mixture's own type for all, none of its rules
  const ImportanceMatrix* importance = nullptr;
  model::ResourceFolders folders = model::default_resource_folders();  // for other dialects
  const bp_threads* threads = nullptr;
  const bp_progress* progress = nullptr;
};

struct TensorChange {
  std::string name;
  std::vector<uint64_t> dims;  // outermost first
  bp_dtype before, after;
};

struct QuantizeReport {
  std::vector<TensorChange> tensors;
  uint64_t n_parameters = 0;
  uint64_t bytes_before = 0;  // of tensors
  uint64_t bytes_after = 0;
  std::vector<std::string> notes;  // what the user should know, a line each
};

// What quantize_file would do; writes nothing.
Result<QuantizeReport> plan_quantize(model::ModelFile& in, const QuantizeOptions& options);
// Writes `out` as a whole or not at all.
Result<QuantizeReport> quantize_file(model::ModelFile& in, const std::string& out,
                                     const QuantizeOptions& options);

}  // namespace bp::convert
