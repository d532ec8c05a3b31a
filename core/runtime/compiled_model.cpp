#include "core/runtime/compiled_model.hpp"

#include <algorithm>
#include <filesystem>
#include <functional>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "backplane/plugin.hpp"
#include "core/model/inline_body.hpp"
#include "core/model/map_guard.hpp"
#include "core/quantize/mixture.hpp"

namespace bp::runtime {

namespace {

Result<plugin::BackendHandle> configured_backend(Runtime& runtime, const config::Model& config) {
  const std::string& id = config.backend.plugin;
  BP_ASSIGN(const auto* entry, runtime.catalog().find(id, BP_BACKEND_ID));
  BP_ASSIGN(const auto code, runtime.library(entry->manifest));
  auto backend = plugin::BackendHandle::create(code->factory<bp_backend_factory>(BP_BACKEND_ID),
                                               runtime.host(), config.backend.params);
  if (!backend.ok()) return backend.status().with_context(fmt::format("plugin '{}'", id));
  return backend;
}

Result<std::vector<plugin::KernelSetHandle>> make_kernels(Runtime& runtime,
                                                          const config::Backend& config) {
  std::vector<plugin::KernelSetHandle> sets;
  for (const config::Override& entry : config.overrides) {
    BP_ASSIGN(const auto* found, runtime.catalog().find(entry.plugin, BP_OP_KERNELS_ID));
    BP_ASSIGN(const auto code, runtime.library(found->manifest));
    auto set =
        plugin::KernelSetHandle::create(code->factory<bp_op_kernels_factory>(BP_OP_KERNELS_ID),
                                        runtime.host(), entry.op, entry.plugin, entry.params);
    if (!set.ok()) {
      return set.status().with_context(
          fmt::format("plugin '{}', override of {}", entry.plugin, entry.op));
    }
    sets.push_back(std::move(set).value());
  }
  return sets;
}

Result<model::Program> fit(const model::LoadedModel& model, const plugin::BackendHandle& backend) {
  const auto check = [&](const bp_program& program) { return backend.check(program); };
  BP_ASSIGN(const auto obstacles, check(model.program.c()));
  if (obstacles.empty()) return model.program;
  BP_ASSIGN(const auto bodies, model::OpBodies::load(model::default_resource_folders().ops));
  return model::fit_to_backend(model.program, bodies, check);
}

// Of this model alone, so that what a backend keeps there is replaced when the model changes.
std::string cache_folder_of(const config::Model& config, const model::ModelFile& file) {
  const std::filesystem::path source(file.path());
  if (config.backend.cache_folder.empty()) {
    return fmt::format("{}{}", source.string(), model::kPreparedFolderEnd);
  }
  const size_t hash = std::hash<std::string>{}(source.string());
  return fmt::format("{}/{}-{:08x}{}", config.backend.cache_folder, source.filename().string(),
                     static_cast<uint32_t>(hash), model::kPreparedFolderEnd);
}

bp_compile_options make_options(const config::Model& config, const CompileLimits& limits,
                                const model::LoadedModel& model, const std::string& cache_folder,
                                uint32_t n_threads, const bp_progress* progress) {
  auto options = make_growable<bp_compile_options>();
  options.n_threads = n_threads;
  options.max_context = limits.context;
  options.max_step_tokens = limits.max_step_tokens;
  options.max_sequences = limits.max_sequences;
  options.max_output_rows = limits.max_output_rows;
  options.k_dtype = config.backend.k_dtype;
  options.v_dtype = config.backend.v_dtype;
  options.block_size = config.backend.block_size;
  options.content_key = model.content_key.c_str();
  options.cache_folder = cache_folder.c_str();
  options.progress = progress;
  return options;
}

// Where the configuration has room to swap and the backend moves blocks.
Result<std::optional<plugin::KvTransfer>> prepare_transfer(
    const config::Backend& config, const plugin::BackendHandle& backend,
    const plugin::ExecutableHandle& executable) {
  if (config.swap_bytes == 0) return std::optional<plugin::KvTransfer>();
  auto transfer = plugin::KvTransfer::prepare(backend, executable);
  const bool is_offered = transfer.ok() && transfer->has_value();
  if (is_offered || (!transfer.ok() && transfer.status().code() != Code::kUnsupported)) {
    return transfer;
  }
  spdlog::warn("`kv: swap` has no effect: plugin '{}' cannot move KV blocks{}{}", config.plugin,
               transfer.ok() ? "" : ": ", transfer.ok() ? "" : transfer.status().message());
  return std::optional<plugin::KvTransfer>();
}

// Positions that a model has never seen are not refused: some models bear them.
void warn_of_long_context(const config::Model& config, const model::LoadedModel& model) {
  if (config.context <= model.longest_context) return;
  spdlog::warn(
      "{}: a context of {} tokens, but model '{}' was trained for {}, and what comes behind them "
      "gets worse; set at most {}, or take a model whose file scales its positions (rope scaling)",
      config.context_place.empty() ? config.source : config.context_place, config.context,
      config.id, model.longest_context, model.longest_context);
}

}  // namespace

Result<model::LoadedModel> load_model(Runtime& runtime, const config::Model& config,
                                      const bp_progress* progress) {
  BP_ASSIGN(const auto formats, runtime.formats(config.format));
  model::LoadOptions options;
  options.path = config.source;
  options.format = config.format;
  options.formats = formats;
  options.host = runtime.host();
  options.context = config.context;
  options.progress = progress;
  if (!config.quantize.empty()) {
    BP_ASSIGN(options.quantize.mixture, quantize::find_mixture(config.quantize));
    options.quantize.threads = runtime.threads();
  }
  BP_ASSIGN(model::LoadedModel model, model::load_model(options));
  for (const std::string& warning : model.warnings) spdlog::warn("{}: {}", config.source, warning);
  warn_of_long_context(config, model);
  return model;
}

Result<CompiledModel> compile_model(Runtime& runtime, const config::Model& config,
                                    model::LoadedModel model, const CompileLimits& limits,
                                    const bp_progress* progress) {
  BP_ASSIGN(plugin::BackendHandle backend, configured_backend(runtime, config));
  BP_ASSIGN(model::Program program, fit(model, backend));
  CompileLimits filled = limits;
  if (filled.context == 0) filled.context = std::max(model.context_length, 1u);
  BP_ASSIGN(auto kernels, make_kernels(runtime, config.backend));
  auto parts = std::make_shared<ModelOnBackend>(
      ModelOnBackend{std::move(model), std::move(program), std::move(kernels), std::move(backend)});
  const uint32_t n_threads =
      config.backend.n_threads == 0 ? runtime.n_threads() : config.backend.n_threads;
  const std::string cache_folder = cache_folder_of(config, *parts->model.file);
  auto options = make_options(config, filled, parts->model, cache_folder, n_threads, progress);
  std::vector<const bp_override*> overrides;
  for (const plugin::KernelSetHandle& set : parts->kernels) overrides.push_back(set.c());
  options.n_overrides = static_cast<uint32_t>(overrides.size());
  options.overrides = overrides.data();
  if (!overrides.empty()) options.required |= BP_COMPILE_OVERRIDES;
  BP_ASSIGN(plugin::ExecutableHandle executable,
            parts->backend.compile(parts->program.c(), options));
  BP_ASSIGN(auto transfer, prepare_transfer(config.backend, parts->backend, executable));
  BP_ASSIGN(bp_memory_info memory, executable.memory());
  const bp_program& c = parts->program.c();
  const bool has_state = c.n_state_slots > 0;
  if (memory.block_size == 0 || memory.n_groups > std::size(memory.block_bytes) ||
      memory.n_groups != c.n_kv_groups + (has_state ? 1 : 0)) {
    return internal_error(
        fmt::format("plugin '{}' answers impossible KV memory facts", config.backend.plugin));
  }
  memory.n_groups = c.n_kv_groups;
  const uint64_t state_bytes =
      has_state ? std::max<uint64_t>(memory.block_bytes[c.n_kv_groups], 1) : 0;
  return CompiledModel{std::move(parts), std::move(executable), std::move(transfer),
                       memory,           state_bytes,           filled};
}

Result<std::optional<bp_memory_plan>> plan_memory(Runtime& runtime, const config::Model& config,
                                                  const model::LoadedModel& model) {
  BP_ASSIGN(const plugin::BackendHandle backend, configured_backend(runtime, config));
  BP_ASSIGN(const model::Program program, fit(model, backend));
  CompileLimits limits;
  limits.context = config.context == 0 ? std::max(model.context_length, 1u) : config.context;
  const std::string cache_folder = cache_folder_of(config, *model.file);
  const auto options = make_options(config, limits, model, cache_folder, 0, nullptr);
  return backend.plan_memory(program.c(), options);
}

namespace {

// Entries, that of zeros included: as half of the budget has room for, and what the needed blocks
// leave of it.
uint32_t plan_states(uint64_t state_bytes, uint32_t max_sequences, uint64_t budget,
                     uint64_t needed_bytes) {
  if (state_bytes == 0) return 0;
  const uint64_t room = std::min(budget / 2, budget - std::min(budget, needed_bytes));
  const uint64_t n = std::max<uint64_t>(room / state_bytes, 2);
  return static_cast<uint32_t>(std::min<uint64_t>(n, uint64_t{max_sequences} + 1));
}

}  // namespace

uint64_t kv_budget(const bp_memory_info& memory) {
  return memory.is_dedicated == 1 ? memory.available_bytes : memory.available_bytes / 2;
}

Result<KvPlan> plan_kv(const bp_memory_info& memory, uint64_t state_bytes,
                       const CompileLimits& limits, uint32_t asked_context,
                       std::optional<uint64_t> kv_bytes) {
  constexpr uint64_t kSequencesAtFullLength = 16;
  constexpr uint64_t kMostBlocks = 1u << 30;
  uint64_t block_bytes = 0;
  for (uint32_t g = 0; g < memory.n_groups; ++g) block_bytes += memory.block_bytes[g];
  const uint64_t budget = kv_bytes.value_or(kv_budget(memory));
  const uint64_t per_sequence = (limits.context + memory.block_size - 1) / memory.block_size;
  const uint64_t needed = 1 + (asked_context == 0 ? 1 : per_sequence);
  const uint32_t n_state_entries =
      plan_states(state_bytes, limits.max_sequences, budget, needed * block_bytes);
  const uint64_t for_state = std::min(budget, n_state_entries * state_bytes);
  const uint64_t n_full = std::min<uint64_t>(limits.max_sequences, kSequencesAtFullLength);
  const uint64_t wanted = 1 + per_sequence * n_full;
  const uint64_t affordable = block_bytes == 0 ? wanted : (budget - for_state) / block_bytes;
  const bool is_filled = kv_bytes || memory.is_dedicated == 1;
  const uint64_t n_blocks =
      std::min(kMostBlocks, is_filled ? affordable : std::min(wanted, affordable));
  if (n_blocks < needed) {
    return out_of_memory(fmt::format(
        "the KV cache needs {:.1f} MB for a context of {} tokens, and {:.1f} MB may be used; lower "
        "`context`, or raise `backend: kv: memory`",
        static_cast<double>(needed * block_bytes + 2 * state_bytes) / 1e6,
        asked_context == 0 ? memory.block_size : limits.context,
        static_cast<double>(budget) / 1e6));
  }
  const uint64_t longest = (n_blocks - 1) * memory.block_size;
  return KvPlan{static_cast<uint32_t>(n_blocks), n_state_entries,
                static_cast<uint32_t>(std::min<uint64_t>(limits.context, longest)),
                n_blocks * block_bytes + n_state_entries * state_bytes};
}

Status allocate_kv(const CompiledModel& compiled, uint32_t n_blocks, uint32_t n_state_entries) {
  std::vector<uint32_t> counts(compiled.memory.n_groups, n_blocks);
  if (compiled.state_bytes > 0) counts.push_back(n_state_entries);
  return compiled.executable.kv_allocate(counts);
}

}  // namespace bp::runtime
