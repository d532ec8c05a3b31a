#pragma once
// A whole file mapped for reading.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "backplane/status.hpp"
#include "core/model/map_guard.hpp"

namespace bp::model {

class Mapping {
 public:
  static Result<std::unique_ptr<Mapping>> open(const std::string& path);
  ~Mapping();
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }
  // Begins to read [first, first + n_bytes) of bytes(), and nothing around it, without waiting.
  void ask_for(uint64_t first, uint64_t n_bytes) const;
  // Frees the memory of the pages inside of bytes() [first, first + n_bytes), which come back from
  // the file when they are read.
  void drop(uint64_t first, uint64_t n_bytes) const;
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] int64_t modified_ns() const { return modified_ns_; }  // since the epoch

 private:
  Mapping(std::string path, std::span<const std::byte> bytes, int64_t modified_ns)
      : path_(std::move(path)),
        bytes_(bytes),
        modified_ns_(modified_ns),
        guard_(bytes.data(), bytes.size(), path_) {}

  std::string path_;
  std::span<const std::byte> bytes_;
  int64_t modified_ns_;
  GuardedRange guard_;
};

}  // namespace bp::model
