#include "backends/cpu/weights/file_pages.hpp"

#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fstream>
#include <map>
#include <string>

#include "backends/cpu/aligned_buffer.hpp"
#include "backplane/file_mappings.hpp"

namespace bp::cpu {

namespace {

constexpr uintptr_t kReadBytes = uintptr_t{512} << 10;  // the kernel cuts off longer requests

struct Pages {
  uintptr_t begin, end;
  Pages(const uint8_t* data, size_t n_bytes)
      : begin(reinterpret_cast<uintptr_t>(data) / kSmallPage * kSmallPage),
        end((reinterpret_cast<uintptr_t>(data) + n_bytes + kSmallPage - 1) / kSmallPage *
            kSmallPage) {}
  [[nodiscard]] bool advise(int advice) const {
    return ::madvise(reinterpret_cast<void*>(begin), end - begin, advice) == 0;
  }
};

// What the system can take back of a file in memory: none of one that lies in memory alone.
uint64_t cacheable_bytes(const std::string& path) {
  struct stat status {};
  struct statfs system {};
  if (::stat(path.c_str(), &status) != 0 || ::statfs(path.c_str(), &system) != 0) return 0;
  const auto type = static_cast<unsigned long>(system.f_type);
  const bool is_memory = type == TMPFS_MAGIC || type == RAMFS_MAGIC || type == HUGETLBFS_MAGIC;
  return is_memory ? 0 : static_cast<uint64_t>(status.st_size);
}

}  // namespace

void read_ahead(const uint8_t* data, size_t n_bytes) {
  const Pages pages(data, n_bytes);
  for (uintptr_t at = pages.begin; at < pages.end; at += kReadBytes) {
    ::madvise(reinterpret_cast<void*>(at), std::min(kReadBytes, pages.end - at), MADV_WILLNEED);
  }
}

void fault_in(const uint8_t* data, size_t n_bytes) {
  const Pages pages(data, n_bytes);
#ifdef MADV_POPULATE_READ
  if (pages.advise(MADV_POPULATE_READ) || errno != EINVAL) return;
#endif
  read_ahead(data, n_bytes);  // older kernels; no touching, there may be holes between mappings
}

void drop_pages(const uint8_t* data, size_t n_bytes) {
#ifdef MADV_PAGEOUT
  static_cast<void>(Pages(data, n_bytes).advise(MADV_PAGEOUT));
#endif
}

uint64_t other_mapped_bytes(const WeightFiles& own, const std::string& root) {
  struct File {
    uint64_t n_bytes = 0;  // in memory
    bool is_own = false;
  };
  std::map<std::string, File> files;
  File* file = nullptr;  // whose lines follow
  std::ifstream maps(root + "/proc/self/smaps");
  for (std::string line; std::getline(maps, line);) {
    unsigned long long kib = 0;
    if (const auto mapping = MappingLine::parse(line)) {
      file = mapping->is_shared_file ? &files[mapping->path] : nullptr;
      if (file == nullptr) continue;
      const auto holds = [&](const void* data) { return mapping->holds(data); };
      file->is_own |= mapping->path == own.path || std::ranges::any_of(own.data, holds);
    } else if (file != nullptr && std::sscanf(line.c_str(), "Rss: %llu kB", &kib) == 1) {
      file->n_bytes += kib * 1024;
    }
  }
  uint64_t n_bytes = 0;
  for (const auto& [path, found] : files) {
    // Mapped twice, it is in memory once.
    if (!found.is_own) n_bytes += std::min(found.n_bytes, cacheable_bytes(path));
  }
  return n_bytes;
}

}  // namespace bp::cpu
