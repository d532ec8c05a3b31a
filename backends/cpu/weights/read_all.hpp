#pragma once
// Reading a part of a file.

#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>

namespace bp::cpu {

// False where the file ends before or cannot be read; errno says why.
inline bool read_all(int fd, void* to, size_t n_bytes, uint64_t offset) {
  auto* bytes = static_cast<uint8_t*>(to);
  while (n_bytes > 0) {
    const ssize_t n = ::pread(fd, bytes, n_bytes, static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    bytes += n;
    offset += static_cast<uint64_t>(n);
    n_bytes -= static_cast<size_t>(n);
  }
  return true;
}

}  // namespace bp::cpu
