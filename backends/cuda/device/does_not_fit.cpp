#include <unistd.h>

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

std::string free_text(const DeviceInfo& info, uint64_t free_bytes) {
  return size_text(free_bytes) + " of " + size_text(info.total_bytes) + " are free on " + info.name;
}

}  // namespace

Status does_not_fit(const DeviceInfo& info, MemoryKind kind, uint64_t n_bytes, uint64_t free_bytes,
                    const std::string& purpose) {
  const std::string needed = size_text(n_bytes) + " for " + purpose + " are needed";
  if (kind == MemoryKind::kDevice)
    return out_of_memory(needed + ", " + free_text(info, free_bytes));
  return out_of_memory(needed + " as pinned host memory, " + size_text(free_bytes) +
                       " are free on the host");
}

Status with_free_bytes(const Status& status, const DeviceInfo& info, uint64_t free_bytes) {
  if (status.code() != Code::kOutOfMemory) return status;
  return out_of_memory(status.message() + ", " + free_text(info, free_bytes));
}

uint64_t free_host_bytes() {
  const long n_pages = sysconf(_SC_AVPHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
  return n_pages < 0 || page_bytes < 0
             ? 0
             : static_cast<uint64_t>(n_pages) * static_cast<uint64_t>(page_bytes);
}

}  // namespace bp::cuda
