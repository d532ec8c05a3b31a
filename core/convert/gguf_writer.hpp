#pragma once
// A GGUF file, version 3, written from its beginning to its end. It is an unfinished file until
// finish(): no half file ever stands under the name.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backplane/dtype.h"
#include "backplane/format.h"
#include "backplane/status.hpp"
#include "core/convert/unfinished_file.hpp"

namespace bp::convert {

// Keys and values in the order they are put.
class GgufMetadata {
 public:
  // Numbers take 32 bits where all of them fit, and 64 otherwise: readers keep no other widths.
  void put(const bp_metadata& entry);
  void put(std::string_view key, uint32_t value);
  void put(std::string_view key, std::string_view value);
  void put(std::string_view key, std::span<const std::string> values);

  [[nodiscard]] uint64_t n_entries() const { return n_entries_; }
  [[nodiscard]] const std::string& bytes() const { return bytes_; }

 private:
  void begin(std::string_view key, uint32_t type);

  uint64_t n_entries_ = 0;
  std::string bytes_;
};

struct GgufTensor {
  std::string name;
  bp_dtype dtype;
  std::vector<uint64_t> dims;  // outermost first; at least one
};

class GgufWriter {
 public:
  // Errors name the file.
  static Result<GgufWriter> create(const std::string& path);

  // The header; alignment: of the tensors' data, as general.alignment says, or 32.
  Status begin(const GgufMetadata& metadata, std::span<const GgufTensor> tensors,
               uint64_t alignment);
  // Data of the tensors in their order, in pieces of any size.
  Status append(const void* data, uint64_t n_bytes);
  // Once the data of all tensors has been appended.
  Status finish();

  [[nodiscard]] uint64_t n_bytes() const { return n_written_; }

 private:
  explicit GgufWriter(UnfinishedFile file) : file_(std::move(file)) {}
  Status write(const void* data, uint64_t n_bytes);
  Status pad();

  UnfinishedFile file_;
  uint64_t n_written_ = 0;
  uint64_t alignment_ = 32;
  std::vector<uint64_t> tensor_bytes_;
  size_t tensor_ = 0;        // being appended
  uint64_t n_appended_ = 0;  // of that tensor
};

}  // namespace bp::convert
