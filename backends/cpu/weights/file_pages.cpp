#include "backends/cpu/weights/file_pages.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fstream>
#include <string>

#include "backends/cpu/aligned_buffer.hpp"

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

FileMappings::FileMappings() {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    unsigned long begin = 0, end = 0, inode = 0;
    char permissions[5] = {};
    const int n =
        std::sscanf(line.c_str(), "%lx-%lx %4s %*x %*s %lu", &begin, &end, permissions, &inode);
    if (n == 4 && permissions[1] == '-' && permissions[3] == 's' && inode != 0) {
      mappings_.push_back({begin, end});
    }
  }
}

void FileMappings::release(const uint8_t* data, size_t n_bytes) const {
  const Pages pages(data, n_bytes);
  const bool is_file = std::ranges::any_of(mappings_, [&](const Mapping& mapping) {
    return pages.begin >= mapping.begin && pages.end <= mapping.end;
  });
  if (n_bytes > 0 && is_file) static_cast<void>(pages.advise(MADV_DONTNEED));
}

}  // namespace bp::cpu
