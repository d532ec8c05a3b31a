#pragma once
// Bytes of files that nobody vouches for.

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

#include "backplane/status.hpp"

namespace bp {

// Of a regular file; a folder, a pipe or a device is an error, and is not opened.
inline Result<uint64_t> file_size(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return io_error(path + ": is no file");
  const uint64_t size = std::filesystem::file_size(path, error);
  if (error) return io_error(path + ": " + error.message());
  return size;
}

// Bytes [offset, offset + n). Nothing is allocated before they are known to exist.
inline Result<std::string> read_file(const std::string& path, uint64_t offset, uint64_t n) {
  BP_ASSIGN(const uint64_t size, file_size(path));
  if (offset > size || n > size - offset) {
    return invalid_argument(path + ": needs " + std::to_string(n) + " bytes at offset " +
                            std::to_string(offset) + ", the file has " + std::to_string(size));
  }
  std::string bytes(n, '\0');
  std::ifstream file(path, std::ios::binary);
  file.seekg(static_cast<std::streamoff>(offset));
  if (!file.read(bytes.data(), static_cast<std::streamsize>(n))) {
    return io_error(path + ": cannot be read");
  }
  return bytes;
}

}  // namespace bp
