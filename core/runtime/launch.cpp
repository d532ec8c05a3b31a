#include "core/runtime/launch.hpp"

#include <algorithm>
#include <ctime>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "backplane/sampler.h"
#include "backplane/scheduler.h"
#include "core/engine/parts.hpp"
#include "core/runtime/compiled_model.hpp"

namespace bp::runtime {

namespace {

Result<plugin::SchedulerHandle> make_scheduler(Runtime& runtime, const config::Scheduler& config) {
  BP_ASSIGN(const auto* entry, runtime.catalog().find(config.plugin, BP_SCHEDULER_ID));
  BP_ASSIGN(const auto code, runtime.library(entry->manifest));
  auto scheduler = plugin::SchedulerHandle::create(
      code->factory<bp_scheduler_factory>(BP_SCHEDULER_ID), runtime.host(), config.params);
  if (!scheduler.ok()) {
    return scheduler.status().with_context(fmt::format("plugin '{}'", config.plugin));
  }
  return scheduler;
}

Result<engine::SamplerPlugin> make_sampler(Runtime& runtime, const plugin::Manifest& manifest) {
  BP_ASSIGN(const auto code, runtime.library(manifest));
  plugin::ParamMap config;
  for (const auto& field : manifest.config) {
    if (field.fallback) config.emplace(field.name, *field.fallback);
  }
  auto handle = plugin::SamplerHandle::create(code->factory<bp_sampler_factory>(BP_SAMPLER_ID),
                                              runtime.host(), config);
  if (!handle.ok()) {
    return handle.status().with_context(fmt::format("plugin '{}'", manifest.id));
  }
  return engine::SamplerPlugin{manifest.id, std::move(handle).value(), manifest.stages};
}

// Every usable sampler plugin, since a request may name any stage. One that the chain does not name
// and that cannot be loaded is left out with a warning.
Result<engine::SamplerSet> make_samplers(Runtime& runtime, const config::Sampler& config) {
  engine::SamplerSet set;
  set.chain = config.chain;
  set.defaults = config.defaults;
  std::vector<const plugin::CatalogEntry*> needed;
  for (const std::string& stage : config.chain) {
    BP_ASSIGN(const auto* entry, runtime.catalog().find_stage(stage));
    needed.push_back(entry);
  }
  for (const auto* entry : runtime.catalog().of_kind(BP_SAMPLER_ID)) {
    auto sampler = make_sampler(runtime, entry->manifest);
    if (sampler.ok()) {
      set.plugins.push_back(std::move(sampler).value());
    } else if (std::find(needed.begin(), needed.end(), entry) != needed.end()) {
      return sampler.status();
    } else {
      spdlog::warn("{}; its stages are not offered", sampler.status().message());
    }
  }
  return set;
}

std::vector<plugin::FieldSpec> request_fields(const engine::SamplerSet& samplers) {
  std::vector<plugin::FieldSpec> fields;
  for (const auto& sampler : samplers.plugins) {
    for (const auto& stage : sampler.stages) {
      fields.insert(fields.end(), stage.fields.begin(), stage.fields.end());
    }
  }
  return fields;
}

engine::Limits engine_limits(const config::Model& config, const CompileLimits& compiled,
                             const KvPlan& plan, uint32_t max_queue) {
  engine::Limits limits;
  limits.context = plan.context;
  limits.max_step_tokens = compiled.max_step_tokens;
  limits.max_sequences = compiled.max_sequences;
  if (plan.n_state_entries > 0) {
    limits.max_sequences = std::min(limits.max_sequences, plan.n_state_entries - 1);
  }
  limits.max_output_rows = compiled.max_output_rows;
  limits.max_queue = max_queue;
  limits.prefix_cache = config.prefix_cache;
  limits.swap_bytes = config.backend.swap_bytes;
  return limits;
}

void log_launch(const config::Model& config, const CompiledModel& compiled, const KvPlan& plan) {
  uint64_t block_bytes = 0;
  for (uint32_t g = 0; g < compiled.memory.n_groups; ++g) {
    block_bytes += compiled.memory.block_bytes[g];
  }
  spdlog::info("model '{}': {} on backend '{}', context {}, {} KV blocks of {} tokens ({:.0f} MB)",
               config.id, compiled.parts->model.architecture, config.backend.plugin, plan.context,
               plan.n_blocks, compiled.memory.block_size,
               static_cast<double>(block_bytes * plan.n_blocks) / 1e6);
  const uint32_t asked = config.backend.block_size;
  if (asked != 0 && asked != compiled.memory.block_size) {
    spdlog::warn(
        "{}: `kv: block` {} has no effect: backend '{}' keeps no blocks of {} tokens, those of "
        "model '{}' have {}; leave the key out, or set a size that the backend keeps",
        config.backend.block_size_place, asked, config.backend.plugin, asked, config.id,
        compiled.memory.block_size);
  }
  if (plan.n_state_entries == 0) return;
  spdlog::info(
      "model '{}': state of {} sequences ({:.0f} MB); no prefix cache, since blocks do "
      "not say what the state was",
      config.id, plan.n_state_entries - 1,
      static_cast<double>(compiled.state_bytes * (plan.n_state_entries - 1)) / 1e6);
}

void give_back_freed_memory() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

std::string token_text(const text::Vocabulary& vocabulary, int32_t id) {
  return vocabulary.contains(id) ? std::string(vocabulary.tokens[static_cast<size_t>(id)]) : "";
}

}  // namespace

Result<std::shared_ptr<const text::Tokenizer>> make_tokenizer(const model::ModelFile& file) {
  auto vocabulary = text::read_vocabulary(file.metadata());
  if (!vocabulary.ok()) return vocabulary.status().with_context(file.path());
  auto tokenizer = text::Tokenizer::create(std::move(vocabulary).value());
  if (!tokenizer.ok()) return tokenizer.status().with_context(file.path());
  return std::shared_ptr<const text::Tokenizer>(std::move(tokenizer).value());
}

Result<std::shared_ptr<const text::ChatTemplate>> make_chat_template(
    const text::Vocabulary& vocabulary, const std::string& own_source) {
  std::vector<text::NamedTemplate> sources;
  if (!own_source.empty()) {
    sources.push_back({"default", own_source});
  } else {
    const std::pair<const char*, const std::string&> found[] = {
        {"default", vocabulary.chat_template}, {"tool_use", vocabulary.tool_template}};
    for (const auto& [name, source] : found) {
      if (!source.empty()) sources.push_back({name, source});
    }
  }
  if (sources.empty()) return std::shared_ptr<const text::ChatTemplate>();
  text::TokenTexts texts;
  const std::pair<const char*, int32_t> named[] = {{"bos_token", vocabulary.bos},
                                                   {"eos_token", vocabulary.eos},
                                                   {"unk_token", vocabulary.unk},
                                                   {"pad_token", vocabulary.pad}};
  for (const auto& [name, id] : named) {
    if (vocabulary.contains(id)) texts.emplace(name, token_text(vocabulary, id));
  }
  BP_ASSIGN(text::ChatTemplate made, text::ChatTemplate::create(sources, std::move(texts)));
  return std::shared_ptr<const text::ChatTemplate>(
      std::make_shared<const text::ChatTemplate>(std::move(made)));
}

Result<std::unique_ptr<ServedModel>> launch(Runtime& runtime, const config::Model& config,
                                            uint32_t max_queue, const bp_progress* progress) {
  CompileLimits limits;
  limits.context = config.context;
  limits.max_step_tokens = config.scheduler.max_step_tokens;
  limits.max_sequences = config.scheduler.max_sequences;
  limits.max_output_rows = std::max(limits.max_sequences, limits.max_output_rows);
  BP_ASSIGN(model::LoadedModel loaded, load_model(runtime, config, progress));
  BP_ASSIGN(const auto tokenizer, make_tokenizer(*loaded.file));
  auto chat_template = make_chat_template(tokenizer->vocabulary(), config.chat_template);
  if (!chat_template.ok()) return chat_template.status().with_context(loaded.file->path());
  loaded.file->forget_metadata();
  give_back_freed_memory();  // reading a vocabulary frees more than what follows takes
  BP_ASSIGN(CompiledModel compiled,
            compile_model(runtime, config, std::move(loaded), limits, progress));
  const model::LoadedModel& model = compiled.parts->model;
  const bp_memory_info memory = runtime.kv_promises().left_of(compiled.memory);
  BP_ASSIGN(const KvPlan plan, plan_kv(memory, compiled.state_bytes, compiled.limits,
                                       config.context, config.backend.kv_bytes));
  BP_TRY(allocate_kv(compiled, plan.n_blocks, plan.n_state_entries));
  BP_ASSIGN(const bp_memory_info left, compiled.executable.memory());
  auto kv_promise = runtime.kv_promises().add(compiled.memory, left, plan.n_bytes);
  BP_TRY(compiled.executable.warm_up(progress));
  log_launch(config, compiled, plan);
  BP_ASSIGN(plugin::SchedulerHandle scheduler, make_scheduler(runtime, config.scheduler));
  BP_ASSIGN(engine::SamplerSet samplers, make_samplers(runtime, config.sampler));

  auto served = std::make_unique<ServedModel>();
  served->id = config.id;
  served->created = static_cast<int64_t>(std::time(nullptr));
  served->context = plan.context;
  served->tokenizer = tokenizer;
  served->chat_template = std::move(chat_template).value();
  served->chat_system = config.chat_system;
  served->chat_output = text::chat::find_dialect(config.chat_output);
  served->request_fields = request_fields(samplers);
  served->field_defaults = config.sampler.defaults;
  served->kv_promise = std::move(kv_promise);
  const plugin::BackendHandle& backend = compiled.parts->backend;
  engine::EngineParts parts{
      .keep_alive = compiled.parts,
      .n_vocab = model.n_vocab,
      .max_candidates = config.device_sampling ? backend.max_candidates() : 0,
      .logits_output = 0,
      .runs_ahead =
          config.device_sampling && backend.takes_chosen() && compiled.memory.max_in_flight > 1,
      .tokenizer = tokenizer.get(),
      .end_of_generation = tokenizer->vocabulary().end_of_generation,
      .executable = std::move(compiled.executable),
      .transfer = compiled.transfer,
      .n_kv_groups = compiled.memory.n_groups,
      .block_size = compiled.memory.block_size,
      .n_blocks = plan.n_blocks,
      .n_state_entries = plan.n_state_entries,
      .scheduler = std::move(scheduler),
      .samplers = std::move(samplers),
      .team = &runtime.team(),
      .limits = engine_limits(config, compiled.limits, plan, max_queue),
  };
  BP_ASSIGN(served->engine, engine::Engine::create(std::move(parts)));
  return served;
}

}  // namespace bp::runtime
