#include "core/config/model_section.hpp"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "backplane/backend.h"
#include "backplane/format.h"
#include "backplane/sampler.h"
#include "backplane/scheduler.h"
#include "core/base/nearest.hpp"
#include "core/base/read_file.hpp"
#include "core/config/kv_section.hpp"
#include "core/config/override_section.hpp"
#include "core/config/plugin_keys.hpp"
#include "core/plugin/catalog.hpp"
#include "core/quantize/mixture.hpp"
#include "core/text/chat_output/dialect.hpp"
#include "core/text/chat_template.hpp"

namespace bp::config {

namespace fs = std::filesystem;
using base::Yaml;
using plugin::Catalog;
using plugin::FieldSpec;

namespace {

constexpr int64_t kMaxContext = 1 << 24;

Status at(const Yaml& node, const Status& status) {
  return status.ok() ? status : node.error(status.message());
}

// The plugin named by `section`, or the default one, and its own keys.
template <class Section>
Status read_plugin(const Yaml& yaml, const std::string& key, const std::string& kind,
                   const std::vector<std::string>& core_keys, const Catalog& catalog,
                   Section& out) {
  const auto section = yaml.find(key);
  if (!section) {
    BP_ASSIGN(const auto* entry, catalog.find(out.plugin, kind));
    BP_ASSIGN(out.params, default_keys(entry->manifest.config));
    return {};
  }
  if (!section->is_map()) return section->error("must be a map, as {plugin: NAME} is");
  const auto name = section->find("plugin");
  if (name) {
    BP_ASSIGN(out.plugin, name->as_string());
  }
  auto entry = catalog.find(out.plugin, kind);
  if (!entry.ok()) return (name ? *name : *section).error(entry.status().message());
  BP_ASSIGN(out.params, read_plugin_keys(*section, core_keys, (*entry)->manifest.config));
  return {};
}

// Relative to `base`.
Status read_cache_folder(const Yaml& section, const std::string& base, Backend& out) {
  const auto folder = section.find("cache_folder");
  if (!folder) return {};
  BP_ASSIGN(const std::string text, folder->as_string());
  if (text.empty()) return folder->error("must not be empty");
  out.cache_folder = (fs::path(base) / text).lexically_normal().string();
  return {};
}

Status read_backend(const Yaml& yaml, const std::string& config_folder, const Catalog& catalog,
                    Backend& out) {
  BP_TRY(read_plugin(yaml, "backend", BP_BACKEND_ID,
                     {"plugin", "threads", "kv", "override", "cache_folder"}, catalog, out));
  const auto section = yaml.find("backend");
  if (!section) return {};
  BP_TRY(read_count(*section, "threads", 1024, out.n_threads));
  BP_TRY(read_cache_folder(*section, config_folder, out));
  if (const auto kv = section->find("kv")) {
    BP_TRY(read_kv(*kv, out));
  }
  if (const auto overrides = section->find("override")) {
    BP_ASSIGN(const auto* base, catalog.find(out.plugin, BP_BACKEND_ID));
    BP_ASSIGN(out.overrides, read_overrides(*overrides, base->manifest, catalog));
  }
  return {};
}

Status read_scheduler(const Yaml& yaml, const Catalog& catalog, Scheduler& out) {
  BP_TRY(read_plugin(yaml, "scheduler", BP_SCHEDULER_ID,
                     {"plugin", "max_step_tokens", "max_sequences"}, catalog, out));
  const auto section = yaml.find("scheduler");
  if (!section) return {};
  BP_TRY(read_count(*section, "max_step_tokens", 1 << 20, out.max_step_tokens));
  return read_count(*section, "max_sequences", 1 << 16, out.max_sequences);
}

// The request fields of all usable stages.
std::vector<FieldSpec> all_stage_fields(const Catalog& catalog) {
  std::vector<FieldSpec> fields;
  for (const auto* entry : catalog.of_kind(BP_SAMPLER_ID)) {
    for (const auto& stage : entry->manifest.stages) {
      fields.insert(fields.end(), stage.fields.begin(), stage.fields.end());
    }
  }
  return fields;
}

Status read_defaults(const Yaml& yaml, const Catalog& catalog, plugin::ParamMap& out) {
  const std::vector<FieldSpec> fields = all_stage_fields(catalog);
  std::vector<std::string> names;
  for (const FieldSpec& f : fields) names.push_back(f.name);
  BP_TRY(yaml.expect_keys(names));
  for (const FieldSpec& field : fields) {
    if (const auto node = yaml.find(field.name)) {
      BP_ASSIGN(out[field.name], read_field_value(*node, field));
    }
  }
  return {};
}

Status read_sampler(const Yaml& yaml, const Catalog& catalog, Sampler& out) {
  const auto section = yaml.find("sampler");
  if (section) {
    BP_TRY(section->expect_keys({"chain", "defaults"}));
    if (const auto chain = section->find("chain")) {
      BP_ASSIGN(out.chain, chain->as_strings());
    }
    if (const auto defaults = section->find("defaults")) {
      BP_TRY(read_defaults(*defaults, catalog, out.defaults));
    }
  }
  const Yaml place = section ? section->find("chain").value_or(*section) : yaml;
  for (const std::string& stage : out.chain) {
    BP_TRY(at(place, catalog.find_stage(stage).status()));
    if (std::ranges::count(out.chain, stage) == 1) continue;
    return place.error(fmt::format("sampler stage '{}' is named twice", stage));
  }
  return {};
}

// A Jinja file, relative to `folder`.
Status read_template(const Yaml& section, const std::string& folder, Model& model) {
  const auto file = section.find("template");
  if (!file) return {};
  BP_ASSIGN(const std::string name, file->as_string());
  const std::string path = (fs::path(folder) / name).lexically_normal().string();
  auto source = base::read_file(path, text::kMaxTemplateFileBytes);
  if (!source.ok()) return file->error(source.status().message());
  if (source->empty()) return file->error(fmt::format("{}: is empty", path));
  model.chat_template = std::move(source).value();
  return at(*file, text::ChatTemplate::create(model.chat_template, {}).status());
}

Status read_chat(const Yaml& yaml, const std::string& folder, Model& model) {
  const auto section = yaml.find("chat");
  if (!section) return {};
  BP_TRY(section->expect_keys({"system", "output", "template"}));
  if (const auto system = section->find("system")) {
    BP_ASSIGN(model.chat_system, system->as_string());
  }
  if (const auto output = section->find("output")) {
    BP_ASSIGN(model.chat_output, output->as_string());
    std::vector<std::string> known = text::chat::dialect_names();
    known.emplace_back("auto");
    if (std::ranges::find(known, model.chat_output) == known.end()) {
      return output->error(fmt::format("there is no dialect '{}'{}", model.chat_output,
                                       base::nearest_hint(model.chat_output, known)));
    }
  }
  return read_template(*section, folder, model);
}

Status read_source(const Yaml& yaml, const std::string& folder, Model& model) {
  const auto id = yaml.find("id");
  if (!id) return yaml.error("the key 'id' is missing");
  BP_ASSIGN(model.id, id->as_string());
  if (model.id.empty()) return id->error("must not be empty");
  const auto source = yaml.find("source");
  if (!source) return yaml.error("the key 'source' is missing");
  BP_ASSIGN(const std::string text, source->as_string());
  model.source = (fs::path(folder) / text).lexically_normal().string();
  std::error_code ignored;
  if (text.empty() || !fs::exists(model.source, ignored)) {
    return source->error(fmt::format("there is no file or folder '{}'", model.source));
  }
  return {};
}

Status read_quantize(const Yaml& yaml, Model& model) {
  const auto key = yaml.find("quantize");
  if (!key) return {};
  BP_ASSIGN(const std::string name, key->as_string());
  const auto mixture = quantize::find_mixture(name);
  if (!mixture.ok()) return key->error(mixture.status().message());
  model.quantize = (*mixture)->name;
  return {};
}

}  // namespace

Result<Model> read_model(const Yaml& yaml, const std::string& folder, const Catalog& catalog) {
  BP_TRY(yaml.expect_keys({"id", "source", "format", "context", "backend", "scheduler", "sampler",
                           "chat", "prefix_cache", "device_sampling", "quantize"}));
  Model model;
  BP_TRY(read_source(yaml, folder, model));
  if (const auto format = yaml.find("format")) {
    BP_ASSIGN(model.format, format->as_string());
    if (model.format != "auto") {
      BP_TRY(at(*format, catalog.find(model.format, BP_FORMAT_ID).status()));
    }
  }
  if (const auto context = yaml.find("context")) {
    model.context_place = context->place();
    BP_TRY(read_count(yaml, "context", kMaxContext, model.context));
    if (model.context == 1) return context->error("must be at least 2");
  }
  if (const auto cache = yaml.find("prefix_cache")) {
    BP_ASSIGN(model.prefix_cache, cache->as_bool());
  }
  if (const auto sampling = yaml.find("device_sampling")) {
    BP_ASSIGN(model.device_sampling, sampling->as_bool());
  }
  BP_TRY(read_quantize(yaml, model));
  BP_TRY(read_backend(yaml, folder, catalog, model.backend));
  BP_TRY(read_scheduler(yaml, catalog, model.scheduler));
  BP_TRY(read_sampler(yaml, catalog, model.sampler));
  BP_TRY(read_chat(yaml, folder, model));
  return model;
}

Status set_backend_keys(const std::vector<std::string>& entries, const Catalog& catalog,
                        Backend& backend) {
  if (entries.empty()) return {};
  std::string text;
  for (const std::string& entry : entries) {
    const size_t equals = entry.find('=');
    if (equals == std::string::npos) {
      return invalid_argument(fmt::format("--set '{}' is not KEY=VALUE, as isa=avx2 is", entry));
    }
    text += fmt::format("{}: {}\n", entry.substr(0, equals), entry.substr(equals + 1));
  }
  BP_ASSIGN(const Yaml section, Yaml::load_text(text, "--set"));
  BP_ASSIGN(const auto* entry, catalog.find(backend.plugin, BP_BACKEND_ID));
  BP_ASSIGN(backend.params, read_plugin_keys(section, {"cache_folder"}, entry->manifest.config));
  return read_cache_folder(section, fs::current_path().string(), backend);
}

}  // namespace bp::config
