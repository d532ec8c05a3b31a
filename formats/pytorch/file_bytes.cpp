#include "formats/pytorch/file_bytes.hpp"

#include <fcntl.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "backplane/file.hpp"
#include "backplane/file_descriptor.hpp"

namespace bp::pytorch {

namespace {

Status check_range(const std::string& path, uint64_t size, uint64_t offset, uint64_t n) {
  if (offset <= size && n <= size - offset) return {};
  return invalid_argument(path + ": needs " + std::to_string(n) + " bytes at offset " +
                          std::to_string(offset) + ", the file has " + std::to_string(size));
}

}  // namespace

// One descriptor for all reads: an archive may have a million entries.
Result<FileBytes> FileBytes::of_file(const std::string& path) {
  BP_ASSIGN(const uint64_t size, file_size(path));
  const auto file = std::make_shared<FileDescriptor>(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file->fd < 0 && errno == ENOMEM) return out_of_memory(path + ": no memory to open it");
  if (file->fd < 0) return io_error(path + ": " + std::strerror(errno));
  const auto read = [path, size, file](uint64_t offset, uint64_t n) -> Result<std::string> {
    BP_TRY(check_range(path, size, offset, n));
    std::string bytes(n, '\0');
    if (read_at(file->fd, bytes.data(), n, offset)) return bytes;
    return io_error(path + ": cannot be read at offset " + std::to_string(offset));
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
