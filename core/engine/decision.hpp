#pragma once
// Checking a scheduler's decision, and making one without a plugin. Both see only the snapshot.

#include "backplane/scheduler.h"
#include "backplane/status.hpp"

namespace bp::engine {

// What is wrong with a decision: tokens a sequence has not, budget, sequences, blocks, an unknown
// action, or no progress although something could run.
[[nodiscard]] Status check_decision(const bp_snapshot& snapshot, const bp_decision& decision);

// First come, first served; the newest running sequence gives its blocks up where an older one
// needs them. `decision` holds zeros. Always makes progress where any sequence fits the pool alone.
void decide_first_come_first_served(const bp_snapshot& snapshot, bp_decision& decision);

}  // namespace bp::engine
