#pragma once
// A file descriptor that is closed at the end of its scope, and reading a part of a file by one.

#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace bp {

struct FileDescriptor {
  explicit FileDescriptor(int descriptor) : fd(descriptor) {}
  ~FileDescriptor() {
    if (fd >= 0) ::close(fd);
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;

  // Whoever asks for it closes it.
  [[nodiscard]] int release() { return std::exchange(fd, -1); }

  int fd;  // -1: none
};

// All n_bytes at the offset. False where the file ends before or cannot be read; errno says why.
inline bool read_at(int fd, void* to, size_t n_bytes, uint64_t offset) {
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

}  // namespace bp
