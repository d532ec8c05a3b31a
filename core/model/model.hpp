#pragma once
// A model ready to be compiled: the open file, its architecture and its program.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "core/model/model_file.hpp"
#include "core/model/parameters.hpp"
#include "core/model/program.hpp"
#include "core/model/resources.hpp"
#include "core/model/tensors.hpp"

namespace bp::model {

struct LoadOptions {
  std::string path;
  std::string format = "auto";            // or one of `formats`
  std::span<const FormatChoice> formats;  // at least one
  const bp_host* host = nullptr;          // outlives the model
  ResourceFolders folders = default_resource_folders();
  uint32_t context = 0;  // tokens that sequences may have; 0: the model's own
  bool strict = false;   // a tensor that nothing uses is an error, not a warning
  QuantizeAtLoad quantize = {};
  const bp_progress* progress = nullptr;  // of weights being quantised or converted; may be null
};

struct LoadedModel {
  std::unique_ptr<ModelFile> file;
  std::string architecture;       // as the file names it
  std::string architecture_path;  // of its YAML file
  NamedValues parameters;         // hyper-parameters by name
  Program program;                // of composites; points into `file`
  uint32_t n_layers = 0;
  uint32_t n_vocab = 0;          // width of the logits
  uint32_t context_length = 0;   // that it was trained for
  uint32_t longest_context = 0;  // with what the scaling of its positions adds
  uint64_t n_parameters = 0;
  uint64_t weights_bytes = 0;
  uint64_t kv_bytes_per_token = 0;  // with keys and values in f16
  uint64_t state_bytes = 0;         // of one sequence, whatever its length
  std::string content_key = {};
  std::vector<std::string> warnings = {};
};

// An error where the file has no weights, as one that holds only a vocabulary.
Status check_has_tensors(const ModelFile& file);

Result<LoadedModel> load_model(const LoadOptions& options);

// {format, architecture, hyperparameters{}, tensors[{name, dtype, dims}],
//  memory{weights_bytes, kv_bytes_per_token, state_bytes}, parameters}
nlohmann::ordered_json describe(const LoadedModel& model);
// [{name, dtype, dims}], also of a file without an architecture.
nlohmann::ordered_json describe_tensors(const ModelFile& file);

}  // namespace bp::model
