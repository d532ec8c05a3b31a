// Breaks the rule that no exception crosses the ABI, in create.
#include <stdexcept>

#include "backplane/plugin.hpp"
#include "backplane/scheduler.h"

namespace {

bp_status create(const bp_host*, const bp_params*, bp_scheduler**, bp_error*) {
  throw std::runtime_error("thrown by create");
}
void destroy(bp_scheduler*) {}
bp_status schedule(bp_scheduler*, const bp_snapshot*, bp_decision*, bp_error*) {
  return BP_OK;
}

constexpr bp_scheduler_factory kFactory = {sizeof(bp_scheduler_factory), 0, create, destroy,
                                           schedule};

}  // namespace

BP_PLUGIN("throws-in-create", "1.0.0", {BP_SCHEDULER_ID, &kFactory});
