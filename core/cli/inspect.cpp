// backplane inspect: what a model file holds and needs.

#include <cstdio>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "core/cli/commands.hpp"
#include "core/cli/progress.hpp"
#include "core/config/config.hpp"
#include "core/model/architecture.hpp"
#include "core/model/model.hpp"
#include "core/runtime/compiled_model.hpp"
#include "core/runtime/runtime.hpp"
#include "core/text/chat_output/dialect.hpp"
#include "core/text/tokenizer.hpp"
#include "core/text/vocabulary.hpp"

namespace bp::cli {

namespace {

using Json = nlohmann::ordered_json;

// Null where the file has no vocabulary that can be read. What keeps it from being used is added
// to `obstacles`.
Json describe_tokenizer(const model::ModelFile& file, Json& obstacles) {
  const auto vocabulary = text::read_vocabulary(file.metadata());
  const auto tokenizer = vocabulary.ok()
                             ? text::Tokenizer::create(*vocabulary)
                             : Result<std::unique_ptr<text::Tokenizer>>(vocabulary.status());
  if (!tokenizer.ok()) obstacles.push_back(tokenizer.status().message());
  if (!vocabulary.ok()) return nullptr;
  return {{"model", vocabulary->model},
          {"pre", vocabulary->pre},
          {"n_vocab", vocabulary->n_tokens()},
          {"chat_template", !vocabulary->chat_template.empty()},
          {"chat_output",
           text::chat::dialect_of_template(vocabulary->chat_template + vocabulary->tool_template)
               .name}};
}

void add_plan(const bp_memory_plan& plan, Json& memory) {
  memory["available_bytes"] = plan.available_bytes;
  Json& modes = memory["modes"] = Json::object();
  for (uint32_t i = 0; i < plan.n_modes; ++i) {
    const bp_weights_mode& mode = plan.modes[i];
    modes[mode.name] = {{"own_bytes", mode.own_bytes},
                        {"mapped_bytes", mode.mapped_bytes},
                        {"resident_bytes", mode.resident_bytes}};
  }
  memory["chosen"] = plan.modes[plan.chosen].name;
}

// Of a file without tensors.
Result<Json> describe_vocabulary(const model::ModelFile& file, const Status& obstacle) {
  Json obstacles = Json::array({obstacle.message()});
  const Json tokenizer = describe_tokenizer(file, obstacles);
  if (tokenizer.is_null()) {
    return invalid_argument(file.path() + ": holds neither tensors nor a usable vocabulary");
  }
  const auto names = model::architecture_names(file);
  return Json{{"format", file.format()},
              {"architecture", names.ok() ? Json(names->front()) : Json()},
              {"hyperparameters", Json::object()},
              {"tensors", Json::array()},
              {"tokenizer", tokenizer},
              {"memory", {{"weights_bytes", 0}, {"kv_bytes_per_token", 0}, {"state_bytes", 0}}},
              {"obstacles", std::move(obstacles)}};
}

// A file with an architecture, or one that holds only a vocabulary.
Result<Json> describe_model(runtime::Runtime& runtime, const std::string& path) {
  BP_ASSIGN(const auto file, runtime.open_model(path, "auto"));
  if (const Status status = model::check_has_tensors(*file); !status.ok()) {
    return describe_vocabulary(*file, status);
  }
  BP_ASSIGN(const auto formats, runtime.formats("auto"));
  model::LoadOptions options;
  options.path = path;
  options.formats = formats;
  options.host = runtime.host();
  options.context = 1;  // one that no model refuses
  const ProgressBar progress("reading");
  options.progress = progress.c();
  BP_ASSIGN(const model::LoadedModel loaded, model::load_model(options));
  for (const std::string& warning : loaded.warnings) fmt::print(stderr, "warning: {}\n", warning);
  Json description = model::describe(loaded);
  BP_ASSIGN(const auto config, config::default_model(path, "cpu", runtime.catalog()));
  // A model that this backend cannot run is still described.
  Json obstacles = Json::array();
  const auto plan = runtime::plan_memory(runtime, config, loaded);
  if (plan.ok() && plan->has_value()) add_plan(**plan, description["memory"]);
  if (!plan.ok()) obstacles.push_back(plan.status().message());
  description["tokenizer"] = describe_tokenizer(*loaded.file, obstacles);
  description["obstacles"] = std::move(obstacles);
  return description;
}

std::string value_text(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

// "repack 400 MB, cache 0 MB and 400 MB mapped, ...": one line that says what will fit.
void print_plan(const Json& memory) {
  const auto megabytes = [](const Json& bytes) { return bytes.get<double>() / 1e6; };
  std::string text;
  for (const auto& [name, mode] : memory["modes"].items()) {
    text +=
        fmt::format("{}{} {:.0f} MB", text.empty() ? "" : ", ", name, megabytes(mode["own_bytes"]));
    if (mode["mapped_bytes"] == 0) continue;
    text += fmt::format(" + {:.0f} MB mapped", megabytes(mode["mapped_bytes"]));
    if (mode["resident_bytes"] == mode["mapped_bytes"]) continue;
    text += fmt::format(" ({:.0f} MB of it stay in memory)", megabytes(mode["resident_bytes"]));
  }
  fmt::print(
      "memory        {:.0f} MB there; weights: {}; KV cache: {:.0f} MB for 1000 tokens; "
      "chosen: {}\n",
      megabytes(memory["available_bytes"]), text, memory["kv_bytes_per_token"].get<double>() / 1e3,
      value_text(memory["chosen"]));
}

void print_human(const Json& d) {
  fmt::print("format        {}\n", value_text(d["format"]));
  fmt::print("architecture  {}\n", value_text(d["architecture"]));
  if (d["tokenizer"].is_object()) {
    const Json& t = d["tokenizer"];
    const std::string pre = value_text(t["pre"]);
    fmt::print("tokenizer     {}{}{}, {} tokens{}\n", value_text(t["model"]),
               pre.empty() ? "" : " ", pre, value_text(t["n_vocab"]),
               t["chat_template"] == true
                   ? fmt::format(", chat template (output: {})", value_text(t["chat_output"]))
                   : std::string());
  }
  for (const Json& obstacle : d["obstacles"]) {
    fmt::print("cannot run    {}\n", value_text(obstacle));
  }
  const Json& memory = d["memory"];
  fmt::print("weights       {:.1f} MB\n", memory["weights_bytes"].get<double>() / 1e6);
  fmt::print("KV cache      {:.1f} KB a token (f16)\n",
             memory["kv_bytes_per_token"].get<double>() / 1e3);
  if (memory["state_bytes"] != 0) {
    fmt::print("state         {:.1f} KB a sequence\n", memory["state_bytes"].get<double>() / 1e3);
  }
  if (memory.contains("chosen")) print_plan(memory);
  fmt::print("\nhyper-parameters\n");
  for (const auto& [name, value] : d["hyperparameters"].items()) {
    fmt::print("  {:<28} {}\n", name, value_text(value));
  }
  fmt::print("\n{} tensors\n", d["tensors"].size());
  for (const Json& tensor : d["tensors"]) {
    fmt::print("  {:<36} {:<8} {}\n", value_text(tensor["name"]), value_text(tensor["dtype"]),
               tensor["dims"].dump());
  }
}

}  // namespace

Status inspect(const InspectOptions& options) {
  BP_ASSIGN(const auto runtime, runtime::default_runtime(1));
  BP_ASSIGN(const Json description, describe_model(*runtime, options.model));
  if (options.json) {
    // Names in a file may be any bytes: what is no UTF-8 is replaced.
    fmt::print("{}\n", description.dump(2, ' ', false, Json::error_handler_t::replace));
  } else {
    print_human(description);
  }
  return {};
}

}  // namespace bp::cli
