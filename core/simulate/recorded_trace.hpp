#pragma once
// Traces of real services: CSV with a line of names, or an object of JSON a line.

#include <string>

#include "core/simulate/trace.hpp"

namespace bp::simulate {

Result<Trace> load_recorded_trace(const std::string& path);

}  // namespace bp::simulate
