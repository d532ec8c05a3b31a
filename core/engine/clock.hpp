#pragma once

#include <chrono>
#include <cstdint>

namespace bp::engine {

// Monotonic.
[[nodiscard]] inline uint64_t now_us() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(now).count());
}

}  // namespace bp::engine
