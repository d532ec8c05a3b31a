#pragma once
// The header of one .safetensors file.

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "backplane/dtype.h"
#include "backplane/status.hpp"

namespace bp::safetensors {

struct TensorEntry {
  std::string name;
  bp_dtype dtype = BP_DTYPE_NONE;
  std::vector<uint64_t> dims;  // outermost first; none: a single value
  uint64_t offset = 0;         // absolute in the file
  uint64_t n_bytes = 0;        // 0 where a dimension is 0
};

struct Shard {
  std::string path;
  std::map<std::string, std::string> notes;  // __metadata__
  std::vector<TensorEntry> tensors;          // by offset
};

// Reads and checks the header; the tensors tile the rest of the file.
Result<Shard> read_shard(const std::string& path);

// The same of a header's text that begins at kLengthBytes of a file of file_bytes.
Result<Shard> parse_header(const std::string& path, std::string_view header, uint64_t file_bytes);

}  // namespace bp::safetensors
