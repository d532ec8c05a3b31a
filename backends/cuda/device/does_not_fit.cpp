#include <cstdio>

#include "backends/cuda/device/device.hpp"

namespace bp::cuda {

namespace {

std::string size_text(uint64_t n_bytes) {
  char text[32];
  constexpr double kGiB = 1 << 30, kMiB = 1 << 20;
  const auto n = static_cast<double>(n_bytes);
  if (n >= 0.1 * kGiB) {
    std::snprintf(text, sizeof text, "%.2f GiB", n / kGiB);
  } else {
    std::snprintf(text, sizeof text, "%.2f MiB", n / kMiB);
  }
  return text;
}

}  // namespace

Status does_not_fit(const DeviceInfo& info, MemoryKind kind, uint64_t n_bytes, uint64_t free_bytes,
                    const std::string& purpose) {
  const std::string needed = size_text(n_bytes) + " for " + purpose + " are needed";
  if (kind == MemoryKind::kPinned) return out_of_memory(needed + " as pinned host memory");
  return out_of_memory(needed + ", " + size_text(free_bytes) + " of " +
                       size_text(info.total_bytes) + " are free on " + info.name);
}

}  // namespace bp::cuda
