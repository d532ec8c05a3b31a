#pragma once
// Stage 2: who computes how many tokens in this step.

#include <cstdint>
#include <vector>

#include "backplane/batch.h"
#include "core/engine/mailbox.hpp"
#include "core/engine/sequence.hpp"
#include "core/engine/snapshot.hpp"
#include "core/engine/stats.hpp"
#include "core/engine/swap.hpp"
#include "core/kv/block_manager.hpp"
#include "core/plugin/scheduler.hpp"

namespace bp::engine {

// Its blocks hold room for positions [first, first + n_tokens).
struct Planned {
  Sequence* sequence;
  uint32_t first;     // as many were computed before
  uint32_t n_tokens;  // at least 1
  [[nodiscard]] uint32_t end() const { return first + n_tokens; }
};

struct Plan {
  std::vector<Planned> sequences;
  std::vector<bp_block_op> block_ops;
  uint32_t n_tokens = 0;
  uint32_t n_rows = 0;  // of logits
};

struct ScheduleContext {
  const plugin::SchedulerHandle& scheduler;
  kv::BlockManager& kv;
  Swap& swap;
  Mailbox& mailbox;
  Stats& stats;
  uint32_t context;  // tokens of the longest sequence
};

// The plugin's decision; an invalid one is replaced by first come, first served, and the reason is
// the answer. `decision` comes from columns.empty_decision().
Status decide(const plugin::SchedulerHandle& scheduler, const bp_snapshot& snapshot,
              ScheduleColumns& columns, bp_decision& decision);

// An invalid decision is counted.
Plan schedule(SequenceList& sequences, const StepLimits& limits, ScheduleColumns& columns,
              const ScheduleContext& c);

}  // namespace bp::engine
