#pragma once
// The built plugin, its stages run on rows as the host would.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "backplane/sampler.h"
#include "core/engine/sampler_set.hpp"

namespace bp::samplers::testing {

// The plugin with its manifest, loaded once.
const engine::SamplerSet& sampler_set();

// A stage with these fields, the others at their defaults; nullopt where it has nothing to do.
std::optional<plugin::StageState> make_stage(const std::string& name,
                                             const plugin::ParamMap& fields, uint32_t n_vocab);

// Runs a stage on a copy of `logits`, as a dense row where the stage takes one, and answers all
// candidates left: those above -inf where the row is still dense.
std::vector<bp_candidate> run_dense(const plugin::StageState& stage, std::vector<float> logits);
std::vector<bp_candidate> run_sparse(const plugin::StageState& stage,
                                     std::vector<bp_candidate> candidates, uint32_t n_vocab);

// Greater logit first, then lower id.
std::vector<bp_candidate> sorted(std::vector<bp_candidate> candidates);
std::vector<bp_candidate> to_candidates(const std::vector<float>& logits);
std::vector<int32_t> ids(const std::vector<bp_candidate>& candidates);
std::vector<float> random_logits(uint32_t n, uint32_t seed, float deviation);

}  // namespace bp::samplers::testing
