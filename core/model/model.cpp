#include "core/model/model.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "backplane/dtype.hpp"
#include "backplane/plugin.hpp"
#include "core/model/architecture.hpp"
#include "core/model/lowering.hpp"

namespace bp::model {

namespace {

// 0 where the architecture has none.
uint32_t small_parameter(const NamedValues& parameters, const char* name) {
  const auto found = parameters.find(name);
  const auto value = found == parameters.end() ? std::nullopt : found->second.as_int();
  return static_cast<uint32_t>(std::clamp<int64_t>(value.value_or(0), 0, UINT32_MAX));
}

void count_weights(LoadedModel& model) {
  for (const Weight& weight : model.program.parts().weights) {
    uint64_t n_elements = 1;
    for (const uint64_t dim : weight.dims()) n_elements *= dim;
    for (const bp_weight_part& part : weight.parts) model.weights_bytes += part.n_bytes;
    const bool made_by_core = model.file->find_tensor(weight.name) == nullptr;
    if (!made_by_core) model.n_parameters += n_elements;
  }
}

void count_kv(LoadedModel& model) {
  constexpr uint64_t kF16Bytes = 2;
  for (const bp_kv_slot& slot : model.program.parts().kv_slots) {
    model.kv_bytes_per_token +=
        uint64_t{slot.n_kv_heads} * (uint64_t{slot.k_head_dim} + slot.v_head_dim) * kF16Bytes;
  }
  for (const bp_state_slot& slot : model.program.parts().state_slots) {
    model.state_bytes += slot.n_floats * sizeof(float);
  }
}

nlohmann::ordered_json to_json(const Value& value) {
  if (const auto flag = value.as_bool()) return *flag;
  if (const auto whole = value.as_int()) return *whole;
  if (const auto number = value.as_number()) return *number;
  if (const std::string* text = value.as_string()) return *text;
  if (!value.is_list()) return nullptr;
  auto list = nlohmann::ordered_json::array();
  for (const Value& element : value.list()) list.push_back(to_json(element));
  return list;
}

}  // namespace

Status check_has_tensors(const ModelFile& file) {
  if (!file.tensors().empty()) return {};
  return unsupported(file.path() +
                     ": holds no tensors, at most a vocabulary: it can tokenize but not run; give "
                     "the file with the model's weights");
}

Result<LoadedModel> load_model(const LoadOptions& options) {
  BP_ASSIGN(auto file,
            ModelFile::open(options.path, options.formats, options.format, options.host));
  BP_ASSIGN(const auto choice, find_architecture(*file, options.folders.architectures));
  BP_TRY(check_has_tensors(*file));
  BP_ASSIGN(Lowered lowered,
            lower(*file, choice, options.context, options.quantize, options.progress));
  LoadedModel model{std::move(file), choice.name, choice.architecture.path,
                    std::move(lowered.parameters), std::move(lowered.program)};
  if (!lowered.unused_tensors.empty()) {
    const std::string text = unused_text(lowered.unused_tensors);
    if (options.strict) return invalid_argument(model.file->path() + ": " + text);
    model.warnings.push_back(text);
  }
  model.n_layers = small_parameter(model.parameters, "n_layers");
  model.context_length = small_parameter(model.parameters, "context_length");
  model.longest_context =
      std::max(model.context_length, small_parameter(model.parameters, "scaled_context"));
  const ProgramParts& parts = model.program.parts();
  model.n_vocab = static_cast<uint32_t>(parts.values[parts.outputs[0]].width);
  model.content_key = model.file->content_key();
  if (options.quantize.mixture != nullptr) {
    model.content_key += fmt::format("-{}", options.quantize.mixture->name);
  }
  count_weights(model);
  count_kv(model);
  return model;
}

nlohmann::ordered_json describe_tensors(const ModelFile& file) {
  auto tensors = nlohmann::ordered_json::array();
  for (const bp_tensor& tensor : file.tensors()) {
    tensors.push_back({{"name", view(tensor.name)},
                       {"dtype", dtype_name(tensor.dtype)},
                       {"dims", dims_of(tensor)}});
  }
  return tensors;
}

nlohmann::ordered_json describe(const LoadedModel& model) {
  nlohmann::ordered_json out;
  out["format"] = model.file->format();
  out["architecture"] = model.architecture;
  auto& parameters = out["hyperparameters"] = nlohmann::ordered_json::object();
  for (const auto& [name, value] : model.parameters) {
    if (!value.is_none()) parameters[name] = to_json(value);
  }
  out["parameters"] = model.n_parameters;
  out["tensors"] = describe_tensors(*model.file);
  out["memory"] = {{"weights_bytes", model.weights_bytes},
                   {"kv_bytes_per_token", model.kv_bytes_per_token},
                   {"state_bytes", model.state_bytes}};
  return out;
}

}  // namespace bp::model
