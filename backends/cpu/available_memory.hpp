#pragma once

#include <cstdint>
#include <string>

namespace bp::cpu {

// Memory that could be allocated now without swapping, within the limits of the cgroups (version 2
// and 1) that the process is in. Cached pages of files count as available. `root` stands before
// /proc and /sys.
[[nodiscard]] uint64_t available_memory_bytes(const std::string& root = "");

}  // namespace bp::cpu
