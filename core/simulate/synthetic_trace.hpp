#pragma once
// Requests drawn from distributions that a YAML file describes; a request's draws depend on the
// seed, its stream and its number only.

#include <optional>
#include <string>

#include "core/simulate/trace.hpp"

namespace bp::simulate {

Result<Trace> load_synthetic_trace(const std::string& path, std::optional<uint64_t> seed);

}  // namespace bp::simulate
