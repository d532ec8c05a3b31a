#pragma once
// The report's picture: distributions of waiting times, and load over time.

#include <string>

#include "core/simulate/report.hpp"

namespace bp::simulate {

// SVG.
std::string plot(const Setting& setting, const Trace& trace, const Outcome& outcome);

}  // namespace bp::simulate
