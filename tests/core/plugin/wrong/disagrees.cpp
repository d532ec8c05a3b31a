// Its manifest says another version, another ABI minor and one kind more.
#include "backplane/scheduler.hpp"

namespace {

constexpr bp_scheduler_factory kFactory = {sizeof(bp_scheduler_factory), 0, nullptr, nullptr,
                                           nullptr};

}  // namespace

BP_PLUGIN("disagrees", "2.0.0", {BP_SCHEDULER_ID, &kFactory});
