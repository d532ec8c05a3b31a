#pragma once
// A trace against a scheduler: the engine's step without a model, at the speed of its bookkeeping.

#include <cstdint>
#include <string>
#include <vector>

#include "backplane/host.h"
#include "backplane/status.hpp"
#include "core/plugin/scheduler.hpp"
#include "core/simulate/cost_model.hpp"
#include "core/simulate/fairness.hpp"
#include "core/simulate/histogram.hpp"
#include "core/simulate/limits.hpp"
#include "core/simulate/timeline.hpp"
#include "core/simulate/trace.hpp"

namespace bp::simulate {

// When a request got its first and its last token.
struct RequestOutcome {
  uint64_t first_token_us = 0;
  uint64_t finish_us = 0;
  bool refused = false;  // larger than the KV memory
};

struct Outcome {
  explicit Outcome(const Trace& trace)
      : requests(trace.requests.size()), fairness(trace.tenants.size()) {}

  std::vector<RequestOutcome> requests;  // as in the trace
  Histogram inter_token_us;
  Fairness fairness;
  Timeline timeline;
  uint64_t end_us = 0;   // of the last step
  uint64_t busy_us = 0;  // of all steps
  uint64_t n_steps = 0;
  uint64_t n_tokens = 0;      // computed
  uint64_t n_recomputed = 0;  // of these, because of preemptions
  uint64_t n_preemptions = 0;
  uint64_t n_invalid = 0;  // decisions that the engine replaces
  std::string first_invalid;
  uint64_t n_queried = 0;  // prompt tokens looked up in the prefix cache
  uint64_t n_cached = 0;   // and found
  uint64_t n_refused = 0;
  uint64_t longest_line = 0;  // requests that waited before the door, max_queue being reached
  uint32_t most_used_blocks = 0;
};

// An error where the scheduler makes no progress, or `progress` (may be null) asks to stop.
Result<Outcome> simulate(const Trace& trace, const Limits& limits, const CostModel& cost,
                         const plugin::SchedulerHandle& scheduler, const bp_progress* progress);

}  // namespace bp::simulate
