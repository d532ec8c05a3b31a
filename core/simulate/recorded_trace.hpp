#pragma once
// Traces of real services: CSV with a line of names, or an object of JSON a line.

#include <cstdint>
#include <string>

#include "core/simulate/trace.hpp"

namespace bp::simulate {

constexpr uint64_t kMostTraceBytes = uint64_t{4} << 30;  // 100 million requests

// Read line by line, each of at most 1 MiB.
Result<Trace> load_recorded_trace(const std::string& path, uint64_t max_bytes = kMostTraceBytes);

}  // namespace bp::simulate
