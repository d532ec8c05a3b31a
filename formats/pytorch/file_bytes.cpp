#include "formats/pytorch/file_bytes.hpp"

#include <utility>

#include "backplane/file.hpp"

namespace bp::pytorch {

Result<FileBytes> FileBytes::of_file(const std::string& path) {
  BP_ASSIGN(const uint64_t size, file_size(path));
  const auto read = [path](uint64_t offset, uint64_t n) { return read_file(path, offset, n); };
  return FileBytes{path, size, read};
}

FileBytes FileBytes::of_memory(const std::string& path, std::string bytes) {
  const uint64_t size = bytes.size();
  const auto read = [path, bytes = std::move(bytes)](uint64_t offset,
                                                     uint64_t n) -> Result<std::string> {
    if (offset <= bytes.size() && n <= bytes.size() - offset) return bytes.substr(offset, n);
    return invalid_argument(path + ": needs bytes beyond its end");
  };
  return FileBytes{path, size, read};
}

}  // namespace bp::pytorch
