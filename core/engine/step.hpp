#pragma once
// One step of an engine, and everything that it works on.

#include <array>
#include <cstdint>
#include <optional>

#include "core/engine/batch_builder.hpp"
#include "core/engine/execute.hpp"
#include "core/engine/mailbox.hpp"
#include "core/engine/parts.hpp"
#include "core/engine/sample.hpp"
#include "core/engine/schedule.hpp"
#include "core/engine/sequence.hpp"
#include "core/engine/stats.hpp"
#include "core/engine/step_budget.hpp"
#include "core/engine/swap.hpp"
#include "core/kv/block_manager.hpp"

namespace bp::engine {

// A step between submit and collect.
struct BegunStep {
  Plan plan;
  Execution execution;
  uint64_t begin_us = 0;  // later where the step before ended later
  uint64_t copy_us = 0;   // that swapping had taken by then
};

// Engine's thread, but for the mailbox, the flags in flight and the stats.
struct StepState {
  explicit StepState(EngineParts engine_parts);

  std::array<Batch, 2> batches;  // taken in turn; a lost device has them until it is destroyed
  EngineParts parts;
  kv::BlockManager kv;
  Swap swap;             // before the sequences, which give room back
  uint32_t context = 0;  // tokens that prompt and answer may have together
  Mailbox mailbox;
  InFlight in_flight;
  Stats stats;
  StepBudget budget;
  SequenceList sequences;
  SequenceList ended, ended_before;  // since the steps in flight were planned
  ScheduleColumns columns;
  std::optional<BegunStep> running, ahead;
  std::vector<SampleRoom> sample_rooms;
  Events events;
  uint64_t step = 0;  // begun so far
  uint64_t last_step_us = 0;
  uint32_t last_step_tokens = 0;
};

enum class StepResult { kGoOn, kStopped, kDeviceLost };

// Waits where nothing runs or is queued. Where the backend allows, the step that follows is begun
// before this one is collected.
StepResult run_step(StepState& s);

// Ends everything queued and running in the same way, and starts over with empty blocks.
void end_all(StepState& s, FinishReason reason, const std::string& error);

}  // namespace bp::engine
