#pragma once
// Writes the file that WeightCache reads: into a temporary file first, which takes the name only
// when all of it is on the disk. Several processes may do so at once; the last one's stays.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/cpu/aligned_buffer.hpp"
#include "backends/cpu/threads/team.hpp"
#include "backends/cpu/weights/weight_cache_format.hpp"
#include "backplane/backend.hpp"
#include "backplane/status.hpp"

namespace bp::cpu {

class WeightCacheWriter {
 public:
  // Makes the folder where it is missing, and room for n_bytes on the disk.
  static Result<std::unique_ptr<WeightCacheWriter>> create(const std::string& folder,
                                                           uint64_t n_bytes);
  ~WeightCacheWriter();  // removes what is not finished
  WeightCacheWriter(const WeightCacheWriter&) = delete;
  WeightCacheWriter& operator=(const WeightCacheWriter&) = delete;

  // Packs those of the weights that can be cached. kCancelled where progress says so.
  Status write(std::span<const std::shared_ptr<PreparedWeight>> weights,
               std::string_view content_key, const Team& team, const Progress& progress);

 private:
  WeightCacheWriter(std::string folder, std::string path, int fd)
      : folder_(std::move(folder)), path_(std::move(path)), fd_(fd) {}

  Status append(const PreparedWeight& weight, const Team& team);
  Status flush(size_t n_bytes, const Team& team);  // the first bytes of staging_
  Status finish(CacheHeader header, std::span<const CacheEntry> entries);

  std::string folder_;
  std::string path_;  // of the temporary file; empty once it has its name
  int fd_;
  AlignedBuffer staging_;
  size_t staged_ = 0;     // bytes of staging_
  uint64_t written_ = 0;  // bytes of the file before staging_
};

}  // namespace bp::cpu
