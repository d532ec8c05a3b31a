#pragma once
// A file descriptor that is closed at the end of its scope.

#include <unistd.h>

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

}  // namespace bp
