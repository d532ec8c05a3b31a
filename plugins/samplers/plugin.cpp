#include <array>

#include "stages.hpp"

namespace {

constexpr uint32_t kAnyRow = BP_STAGE_DENSE | BP_STAGE_SPARSE;

constexpr std::array<bp::StageEntry, 6> kStages = {{
    {{"penalties", kAnyRow, 0}, bp::samplers::make_penalties},
    {{"top_k", kAnyRow | BP_STAGE_TRUNCATES, 0}, bp::samplers::make_top_k},
    {{"typical_p", BP_STAGE_SPARSE | BP_STAGE_TRUNCATES, 0}, bp::samplers::make_typical_p},
    {{"top_p", kAnyRow | BP_STAGE_TRUNCATES, 0}, bp::samplers::make_top_p},
    {{"min_p", kAnyRow | BP_STAGE_TRUNCATES, 0}, bp::samplers::make_min_p},
    {{"temperature", kAnyRow | BP_STAGE_TRUNCATES, 0}, bp::samplers::make_temperature},
}};

constexpr bp_sampler_factory kFactory = bp::sampler_factory<kStages>();

}  // namespace

BP_PLUGIN("samplers", "0.1.0", {BP_SAMPLER_ID, &kFactory});
