#pragma once
// How many threads this process may run at once.

#include <cstdint>

namespace bp::base {

// CPUs of the affinity mask, bounded by the cgroup's quota (v2 and v1), rounded up; at least 1.
uint32_t available_cpus();

}  // namespace bp::base
