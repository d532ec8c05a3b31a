#pragma once
// The directory of a zip archive as torch.save writes them: entries that are stored as they are,
// one after another, and nothing behind the end record.

#include <cstdint>
#include <map>
#include <string>

#include "backplane/status.hpp"
#include "formats/pytorch/file_bytes.hpp"

namespace bp::pytorch {

struct ZipEntry {
  uint64_t offset = 0;  // of its first byte in the file
  uint64_t n_bytes = 0;
};

// By name. Entries lie within the file and apart from each other; each local header agrees with
// the directory. Names are relative paths without "..".
Result<std::map<std::string, ZipEntry>> read_zip(const FileBytes& file);

}  // namespace bp::pytorch
