#pragma once
// The fields of an architecture's `rope` entry as a model's hyper-parameters give them.

#include <functional>
#include <string>
#include <vector>

#include "core/model/architecture.hpp"
#include "core/model/rope_table.hpp"

namespace bp::model {

// The values of the weight of that name: a row of f32, or none where it is absent.
using WeightFloats =
    std::function<Result<std::vector<float>>(const base::Yaml& place, const std::string& weight)>;

Result<RopeParameters> rope_parameters(const RopeSpec& spec, const Scope& scope,
                                       const WeightFloats& floats);

}  // namespace bp::model
