#pragma once
// The first part of a file, read on demand into memory of its own. A copy and not a mapping: names
// and tokens stay readable when the file is truncated or replaced later, where a mapping raises
// SIGBUS.

#include <cstdint>
#include <span>
#include <string>

#include "backplane/status.hpp"
#include "formats/gguf/system.hpp"

namespace bp::gguf {

class HeaderBytes {
 public:
  // Errors name the file.
  static Result<HeaderBytes> open(const std::string& path);
  // `bytes` outlive the object; `name` stands for the path in messages.
  static HeaderBytes of_memory(std::string name, std::span<const uint8_t> bytes);

  // Makes bytes [0, end) readable at data(). Precondition: end <= file_bytes().
  Status load(uint64_t end) { return end <= n_loaded_ ? Status() : read_until(end); }
  // Nothing more will be loaded, and what was read beyond the end is given back.
  void close_file(uint64_t end) {
    file_ = FileDescriptor();
    n_loaded_ = end;
    memory_.shrink(end);
  }

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] uint64_t n_loaded() const { return n_loaded_; }
  [[nodiscard]] uint64_t file_bytes() const { return file_bytes_; }
  // Keeps its address for the life of the object and of what it is moved to.
  [[nodiscard]] const uint8_t* data() const { return data_; }

  // "PATH: offset N: RULE"
  [[nodiscard]] std::string message(uint64_t offset, const std::string& rule) const;

 private:
  HeaderBytes() = default;
  Status read_until(uint64_t end);

  std::string path_;
  FileDescriptor file_;
  uint64_t file_bytes_ = 0;
  uint64_t n_loaded_ = 0;
  AddressSpace memory_;
  const uint8_t* data_ = nullptr;
};

}  // namespace bp::gguf
