#pragma once
// A model on its backend: from a configuration entry to an executable. What `serve`, `logits` and
// `bench` share.

#include <cstdint>
#include <memory>
#include <optional>

#include "backplane/status.hpp"
#include "core/config/config.hpp"
#include "core/model/model.hpp"
#include "core/plugin/backend.hpp"
#include "core/plugin/kv_transfer.hpp"
#include "core/plugin/op_kernels.hpp"
#include "core/runtime/runtime.hpp"

namespace bp::runtime {

// What compile is told, beside the configuration's own keys.
struct CompileLimits {
  uint32_t context = 0;  // tokens of the longest sequence; 0: the model's own
  uint32_t max_step_tokens = 512;
  uint32_t max_sequences = 64;
  uint32_t max_output_rows = 64;
};

// Outlives the executable compiled from it.
struct ModelOnBackend {
  model::LoadedModel model;
  model::Program program;                        // as the backend accepted it
  std::vector<plugin::KernelSetHandle> kernels;  // of the configuration's overrides
  plugin::BackendHandle backend;
};

struct CompiledModel {
  std::shared_ptr<ModelOnBackend> parts;
  plugin::ExecutableHandle executable;
  std::optional<plugin::KvTransfer> transfer;  // where the configuration has room to swap
  bp_memory_info memory;                       // of the KV groups
  uint64_t state_bytes = 0;                    // of one state entry; 0 without state slots
  CompileLimits limits;                        // with the context filled in
};

// The model of a configuration entry, checked and lowered; cheap where weights are only mapped, not
// quantised or converted. progress may be null.
Result<model::LoadedModel> load_model(Runtime& runtime, const config::Model& config,
                                      const bp_progress* progress);

// KV memory is not yet allocated. progress may be null.
Result<CompiledModel> compile_model(Runtime& runtime, const config::Model& config,
                                    model::LoadedModel model, const CompileLimits& limits,
                                    const bp_progress* progress);

// What the model would take on its backend, where that foretells it.
Result<std::optional<bp_memory_plan>> plan_memory(Runtime& runtime, const config::Model& config,
                                                  const model::LoadedModel& model);

// What the executable gets at kv_allocate, and what fits into it.
struct KvPlan {
  uint32_t n_blocks = 0;         // of every KV group, the null block included
  uint32_t n_state_entries = 0;  // of the state slots, the zero entry included; 0 without them
  uint32_t context = 0;          // tokens of the longest sequence that fits
  uint64_t n_bytes = 0;          // of all of it
};

// What KV memory and state may take where the configuration leaves it open: all of memory that is
// the backend's own, half of what everything else lives in too.
[[nodiscard]] uint64_t kv_budget(const bp_memory_info& memory);

// `asked_context` 0: as much as fits, at most limits.context. Blocks fill `kv_bytes`, or dedicated
// memory; of other memory they take what the sequences can use at once. State takes at most half,
// but one entry in any case. Errors say what is needed.
Result<KvPlan> plan_kv(const bp_memory_info& memory, uint64_t state_bytes,
                       const CompileLimits& limits, uint32_t asked_context,
                       std::optional<uint64_t> kv_bytes);

// Gives the executable its KV memory and state entries.
Status allocate_kv(const CompiledModel& compiled, uint32_t n_blocks, uint32_t n_state_entries);

}  // namespace bp::runtime
