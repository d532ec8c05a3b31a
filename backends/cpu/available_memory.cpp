#include "backends/cpu/available_memory.hpp"

#include <algorithm>
#include <fstream>
#include <string>

#include "backplane/cgroups.hpp"

namespace bp::cpu {

namespace {

// The number after `key` in a file of keys and numbers; 0 where there is none.
uint64_t number_of(const std::string& path, const std::string& key) {
  std::ifstream file(path);
  std::string line_key;
  std::string value;
  while (file >> line_key >> value) {
    if (line_key == key) return std::strtoull(value.c_str(), nullptr, 10);
    file.ignore(1024, '\n');
  }
  return 0;
}

// A cgroup's limit less what it uses that cannot be taken back; UINT64_MAX without a limit.
uint64_t room_in(const std::string& limit_path, const std::string& used_path,
                 const std::string& stat_path, const std::string& prefix) {
  uint64_t limit = 0;
  uint64_t used = 0;
  std::ifstream limit_file(limit_path);
  std::ifstream used_file(used_path);
  if (!(limit_file >> limit) || !(used_file >> used)) return UINT64_MAX;
  const uint64_t file_pages =
      number_of(stat_path, prefix + "inactive_file") + number_of(stat_path, prefix + "active_file");
  used -= std::min(used, file_pages);
  return limit - std::min(limit, used);
}

uint64_t room_v2(const std::string& folder) {
  return room_in(folder + "/memory.max", folder + "/memory.current", folder + "/memory.stat", "");
}

uint64_t room_v1(const std::string& folder) {
  return room_in(folder + "/memory.limit_in_bytes", folder + "/memory.usage_in_bytes",
                 folder + "/memory.stat", "total_");
}

}  // namespace

uint64_t available_memory_bytes(const std::string& root) {
  const uint64_t system = number_of(root + "/proc/meminfo", "MemAvailable:") * 1024;
  return std::min(
      {system, least_of_cgroups(root, "", room_v2), least_of_cgroups(root, "memory", room_v1)});
}

}  // namespace bp::cpu
