#pragma once
// What an engine is made of: a compiled model with its KV memory, and the plugins around it.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/engine/sampler_set.hpp"
#include "core/plugin/backend.hpp"
#include "core/plugin/kv_transfer.hpp"
#include "core/plugin/params.hpp"
#include "core/plugin/scheduler.hpp"

namespace bp::plugin {
class ThreadTeam;
}
namespace bp::text {
class Tokenizer;
}

namespace bp::engine {

struct Limits {
  uint32_t context = 0;  // tokens of the longest sequence, as given to compile
  uint32_t max_step_tokens = 512;
  uint32_t max_sequences = 64;     // of a step, as given to compile
  uint32_t max_output_rows = 64;   // as given to compile; at least max_sequences
  uint32_t max_queue = 256;        // requests that wait for their first step
  uint32_t max_choices = 128;      // n of a request
  uint64_t max_step_us = 500'000;  // predicted time of a step
  bool prefix_cache = true;
  uint64_t swap_bytes = 0;  // of host memory for what preempted sequences had computed
};

struct EngineParts {
  std::shared_ptr<const void> keep_alive;  // what the parts below refer to; released last

  uint32_t n_vocab = 0;
  uint32_t max_candidates = 0;  // that the backend chooses tokens among; 0: rows come to the host
  uint32_t logits_output = 0;   // program output with n_vocab columns
  // Whether the backend takes a step, with tokens of the one before, while that one still runs.
  bool runs_ahead = false;
  const text::Tokenizer* tokenizer = nullptr;  // null: answers have tokens but no text
  std::vector<int32_t> end_of_generation;

  plugin::ExecutableHandle executable;                        // after kv_allocate and warm_up
  std::optional<plugin::KvTransfer> transfer = std::nullopt;  // of the executable
  uint32_t n_kv_groups = 1;
  uint32_t block_size = 0;       // as the backend answered
  uint32_t n_blocks = 0;         // given to kv_allocate for every group
  uint32_t n_state_entries = 0;  // likewise for state slots; 0 without them

  plugin::SchedulerHandle scheduler;
  SamplerSet samplers;
  // Samples the rows of a step where no other model computes; null: the engine's thread does.
  plugin::ThreadTeam* team = nullptr;
  Limits limits;
};

}  // namespace bp::engine
