#include "backends/cpu/available_memory.hpp"

#include <algorithm>
#include <fstream>
#include <string>

namespace bp::cpu {

namespace {

uint64_t meminfo_available() {
  std::ifstream file("/proc/meminfo");
  std::string key;
  uint64_t kilobytes = 0;
  while (file >> key) {
    if (key == "MemAvailable:" && file >> kilobytes) return kilobytes * 1024;
  }
  return 0;
}

// What the cgroup leaves; no limit where its files are missing or say "max".
uint64_t cgroup_available() {
  uint64_t limit = 0;
  uint64_t used = 0;
  std::ifstream limit_file("/sys/fs/cgroup/memory.max");
  std::ifstream used_file("/sys/fs/cgroup/memory.current");
  if (!(limit_file >> limit) || !(used_file >> used)) return UINT64_MAX;
  return limit - std::min(limit, used);
}

}  // namespace

uint64_t available_memory_bytes() {
  return std::min(meminfo_available(), cgroup_available());
}

}  // namespace bp::cpu
