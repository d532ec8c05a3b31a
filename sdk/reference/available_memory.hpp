#pragma once

#include <cstdint>

namespace bp::reference {

// Memory that could be allocated now without swapping, within the cgroup's limit.
[[nodiscard]] uint64_t available_memory_bytes();

}  // namespace bp::reference
