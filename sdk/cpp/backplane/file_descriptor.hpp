#pragma once
// A file descriptor that is closed at the end of its scope.

#include <unistd.h>

namespace bp {

struct FileDescriptor {
  explicit FileDescriptor(int descriptor) : fd(descriptor) {}
  ~FileDescriptor() {
    if (fd >= 0) ::close(fd);
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;

  const int fd;  // -1: none
};

}  // namespace bp
