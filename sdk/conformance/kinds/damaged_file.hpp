#pragma once
// A copy of a model file in a folder of its own, which is damaged and made whole again in place.

#include <cstdint>
#include <filesystem>
#include <vector>

#include "sdk/conformance/support/temporary_folder.hpp"

namespace bp::conformance {

class DamagedFile {
 public:
  explicit DamagedFile(const std::filesystem::path& original);
  ~DamagedFile();
  DamagedFile(const DamagedFile&) = delete;
  DamagedFile& operator=(const DamagedFile&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] const std::filesystem::path& folder() const { return folder_.path(); }
  [[nodiscard]] const std::vector<uint8_t>& original() const { return bytes_; }

  void truncate(uint64_t n_bytes) const;
  void overwrite(uint64_t offset, const void* bytes, uint64_t n) const;  // within the file
  void restore(uint64_t offset, uint64_t n) const;
  void restore_all() const;

 private:
  TemporaryFolder folder_{"backplane-conform"};
  std::filesystem::path path_;
  std::vector<uint8_t> bytes_;
  int fd_ = -1;
};

}  // namespace bp::conformance
