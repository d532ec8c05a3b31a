#pragma once
// Files that this process has mapped to share and to read: what of them may be taken out of its
// memory without losing anything.

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

namespace bp {

// A line that begins a mapping in /proc/PID/maps and smaps.
struct MappingLine {
  uintptr_t begin = 0, end = 0;
  bool is_shared_file = false;  // and read-only
  std::string file;             // device and inode, as they are written
  std::string path;

  [[nodiscard]] bool holds(const void* data, size_t n_bytes = 1) const {
    const auto at = reinterpret_cast<uintptr_t>(data);
    return at >= begin && at <= end && n_bytes <= end - at;
  }
  static std::optional<MappingLine> parse(const std::string& line) {
    unsigned long begin = 0, end = 0, inode = 0;
    char permissions[5] = {};
    int file = 0, file_end = 0, path = 0;
    const int n = std::sscanf(line.c_str(), "%lx-%lx %4s %*x %n%*s %lu%n %n", &begin, &end,
                              permissions, &file, &inode, &file_end, &path);
    if (n != 4) return std::nullopt;
    const bool is_shared_file = permissions[1] == '-' && permissions[3] == 's' && inode != 0;
    return MappingLine{begin, end, is_shared_file,
                       line.substr(static_cast<size_t>(file), static_cast<size_t>(file_end - file)),
                       line.substr(static_cast<size_t>(path))};
  }
};

// Those that there are when it is made.
class FileMappings {
 public:
  FileMappings() {
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
      const auto mapping = MappingLine::parse(line);
      if (mapping && mapping->is_shared_file) mappings_.push_back(*mapping);
    }
  }
  // Takes the pages of the bytes out of this process where they lie in one of the mappings; reading
  // them brings them back.
  void release(const void* data, size_t n_bytes) const {
    const auto holds = [&](const MappingLine& mapping) { return mapping.holds(data, n_bytes); };
    if (n_bytes == 0 || std::none_of(mappings_.begin(), mappings_.end(), holds)) return;
    const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
    const auto at = reinterpret_cast<uintptr_t>(data), begin = at / page * page;
    static_cast<void>(
        ::madvise(reinterpret_cast<void*>(begin), at + n_bytes - begin, MADV_DONTNEED));
  }

 private:
  std::vector<MappingLine> mappings_;
};

}  // namespace bp
