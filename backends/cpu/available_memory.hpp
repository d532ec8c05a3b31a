#pragma once

#include <cstdint>

namespace bp::cpu {

// Memory that could be allocated now without swapping, within the cgroup's limit.
[[nodiscard]] uint64_t available_memory_bytes();

}  // namespace bp::cpu
