#pragma once

#include "backplane/format.h"
#include "backplane/sampler.h"
#include "backplane/scheduler.h"

namespace bp::wrong {

extern const bp_format kFormat;
extern const bp_sampler_factory kSampler;
extern const bp_scheduler_factory kScheduler;

}  // namespace bp::wrong
