#pragma once
// The bytes of a file that nobody vouches for, read piece by piece.

#include <cstdint>
#include <functional>
#include <string>

#include "backplane/status.hpp"

namespace bp::pytorch {

struct FileBytes {
  std::string path;
  uint64_t size = 0;
  // Bytes [offset, offset + n); an error where they do not lie within the file.
  std::function<Result<std::string>(uint64_t offset, uint64_t n)> read;

  static Result<FileBytes> of_file(const std::string& path);
  static FileBytes of_memory(const std::string& path, std::string bytes);
};

}  // namespace bp::pytorch
