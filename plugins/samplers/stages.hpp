#pragma once
// The makers of all stages of this plugin. A null stage has nothing to do for these fields.

#include <memory>

#include "backplane/sampler.hpp"

namespace bp::samplers {

Result<std::unique_ptr<Stage>> make_penalties(const Params& fields, uint32_t n_vocab);
Result<std::unique_ptr<Stage>> make_top_k(const Params& fields, uint32_t n_vocab);
Result<std::unique_ptr<Stage>> make_typical_p(const Params& fields, uint32_t n_vocab);
Result<std::unique_ptr<Stage>> make_top_p(const Params& fields, uint32_t n_vocab);
Result<std::unique_ptr<Stage>> make_min_p(const Params& fields, uint32_t n_vocab);
Result<std::unique_ptr<Stage>> make_temperature(const Params& fields, uint32_t n_vocab);

}  // namespace bp::samplers
