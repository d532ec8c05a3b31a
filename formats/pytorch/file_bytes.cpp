#include "formats/pytorch/file_bytes.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "backplane/file.hpp"

namespace bp::pytorch {

namespace {

struct Descriptor {
  Descriptor() = default;
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
  int fd = -1;
};

Status check_range(const std::string& path, uint64_t size, uint64_t offset, uint64_t n) {
  if (offset <= size && n <= size - offset) return {};
  return invalid_argument(path + ": needs " + std::to_string(n) + " bytes at offset " +
                          std::to_string(offset) + ", the file has " + std::to_string(size));
}

Result<std::string> read_at(const std::string& path, int fd, uint64_t offset, uint64_t n) {
  std::string bytes(n, '\0');
  for (uint64_t done = 0; done < n;) {
    const ssize_t got =
        ::pread(fd, bytes.data() + done, n - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      return io_error(path + ": cannot be read at offset " + std::to_string(offset + done));
    }
    done += static_cast<uint64_t>(got);
  }
  return bytes;
}

}  // namespace

// One descriptor for all reads: an archive may have a million entries.
Result<FileBytes> FileBytes::of_file(const std::string& path) {
  BP_ASSIGN(const uint64_t size, file_size(path));
  const auto file = std::make_shared<Descriptor>();
  file->fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file->fd < 0 && errno == ENOMEM) return out_of_memory(path + ": no memory to open it");
  if (file->fd < 0) return io_error(path + ": " + std::strerror(errno));
  const auto read = [path, size, file](uint64_t offset, uint64_t n) -> Result<std::string> {
    BP_TRY(check_range(path, size, offset, n));
    return read_at(path, file->fd, offset, n);
  };
  return FileBytes{path, size, read};
}

FileBytes FileBytes::of_memory(const std::string& path, std::string bytes) {
  const uint64_t size = bytes.size();
  const auto read = [path, bytes = std::move(bytes)](uint64_t offset,
                                                     uint64_t n) -> Result<std::string> {
    BP_TRY(check_range(path, bytes.size(), offset, n));
    return bytes.substr(offset, n);
  };
  return FileBytes{path, size, read};
}

}  // namespace bp::pytorch
