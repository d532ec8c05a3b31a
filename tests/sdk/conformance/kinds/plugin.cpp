#include "backplane/plugin.hpp"

#include "backplane/format.h"
#include "backplane/sampler.h"
#include "backplane/scheduler.h"
#include "factories.hpp"

BP_PLUGIN("wrong-kinds", "1.0.0", {BP_FORMAT_ID, &bp::wrong::kFormat},
          {BP_SAMPLER_ID, &bp::wrong::kSampler}, {BP_SCHEDULER_ID, &bp::wrong::kScheduler});
