#include "available_memory.hpp"

#include <algorithm>
#include <fstream>
#include <optional>
#include <string>

namespace bp::reference {

namespace {

// The number after `key` in a file of "key number" lines; the first number where key is empty.
std::optional<uint64_t> read_number(const char* path, const std::string& key) {
  std::ifstream file(path);
  std::string word;
  if (!key.empty()) {
    while (file >> word && word != key) {
    }
  }
  uint64_t value = 0;
  return file >> value ? std::optional(value) : std::nullopt;
}

}  // namespace

uint64_t available_memory_bytes() {
  uint64_t bytes = read_number("/proc/meminfo", "MemAvailable:").value_or(0) * 1024;
  const auto limit = read_number("/sys/fs/cgroup/memory.max", "");
  const auto used = read_number("/sys/fs/cgroup/memory.current", "");
  if (limit && used) bytes = std::min(bytes, *limit - std::min(*limit, *used));
  return bytes;
}

}  // namespace bp::reference
