#pragma once
// The stages that every engine has, as their papers define them, against what a plugin does.

#include <cstdint>

#include "sdk/conformance/kinds/stage.hpp"

namespace bp::conformance {

// top_k, top_p, min_p, typical_p, temperature and penalties, with the fields of those names.
[[nodiscard]] bool has_definition(const StageSpec& stage);

// Draws tokens from what the stage leaves of rows, and compares their numbers with the
// probabilities of the definition. Throws Failure where they cannot be from that distribution.
void follows_definition(const SamplerUnderTest& sampler, const StageSpec& stage, uint64_t seed);

}  // namespace bp::conformance
