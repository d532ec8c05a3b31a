#include "sdk/conformance/levels/levels.hpp"

#include "backplane/backend.h"
#include "backplane/format.h"
#include "backplane/op_kernels.h"
#include "backplane/sampler.h"
#include "backplane/scheduler.h"

namespace bp::conformance {

std::span<const Level> all_levels() {
  static constexpr Level levels[] = {
      {"load", "", add_load_tests, "the library loads as the rules say, and is what it claims"},
      {"abi", BP_BACKEND_ID, add_abi_tests, "older and newer tables, unknown bits and versions"},
      {"life", BP_BACKEND_ID, add_life_tests, "creation and destruction, scarce memory, leaks"},
      {"ops", BP_BACKEND_ID, add_ops_tests, "each op, dtype and shape against the reference"},
      {"steps", BP_BACKEND_ID, add_steps_tests, "what must not change the result of a step"},
      {"errors", BP_BACKEND_ID, add_errors_tests, "bad batches, NaN, cancelled sequences"},
      {"threads", BP_BACKEND_ID, add_threads_tests, "steps from many threads, several at a time"},
      {"model", BP_BACKEND_ID, add_model_tests, "the test model's text, served by backplane"},
      {"formats", BP_FORMAT_ID, add_formats_tests, "files, whole and damaged"},
      {"samplers", BP_SAMPLER_ID, add_samplers_tests, "distributions and state of each stage"},
      {"kernels", BP_OP_KERNELS_ID, add_kernels_tests, "single ops inside the reference backend"},
      {"schedulers", BP_SCHEDULER_ID, add_schedulers_tests, "properties on random traces"},
  };
  return levels;
}

}  // namespace bp::conformance
