#pragma once
// What the scheduler plugin sees of the sequences, and what it answers.

#include <cstdint>
#include <vector>

#include "backplane/scheduler.h"
#include "core/engine/sequence.hpp"
#include "core/kv/block_manager.hpp"

namespace bp::engine {

struct StepLimits {
  uint64_t step = 0;
  uint64_t now_us = 0;
  uint64_t last_step_us = 0;
  uint32_t last_step_tokens = 0;
  uint32_t max_step_tokens = 0;
  uint32_t max_sequences = 0;
  uint32_t max_output_rows = 0;
};

// The memory behind a bp_snapshot and a bp_decision, reused from step to step.
struct ScheduleColumns {
  std::vector<uint64_t> id, arrival_us, deadline_us, last_run_step;
  std::vector<uint32_t> state, tenant, n_prompt, n_tokens, n_computed, n_cached, n_held;
  std::vector<int32_t> priority;
  std::vector<uint32_t> run, draft, preempt;

  // Points into the columns. Looks waiting sequences up in the prefix cache.
  bp_snapshot take(SequenceList& sequences, kv::BlockManager& kv, const StepLimits& limits);
  // Of the columns as they are; they have equal lengths.
  [[nodiscard]] bp_snapshot view(const kv::BlockManager& kv, const StepLimits& limits) const;
  bp_decision empty_decision(uint32_t n_seqs);
};

}  // namespace bp::engine
