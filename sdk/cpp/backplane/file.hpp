#pragma once
// Bytes of files that nobody vouches for.

#include <sys/types.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
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
  // Not a stream, which would hide that memory is out.
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"),
                                                             std::fclose);
  if (file == nullptr && errno == ENOMEM) return out_of_memory(path + ": no memory to open it");
  if (file == nullptr) return io_error(path + ": " + std::strerror(errno));
  std::setvbuf(file.get(), nullptr, _IONBF, 0);
  if (fseeko(file.get(), static_cast<off_t>(offset), SEEK_SET) != 0 ||
      std::fread(bytes.data(), 1, n, file.get()) != n) {
    return io_error(path + ": cannot be read at offset " + std::to_string(offset));
  }
  return bytes;
}

}  // namespace bp
