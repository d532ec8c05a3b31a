#pragma once
// Packed weights of an earlier run, mapped from their file.

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <tuple>

#include "backends/cpu/weights/direct_window.hpp"
#include "backends/cpu/weights/prepared_weight.hpp"
#include "backplane/status.hpp"

namespace bp::cpu {

struct CacheEntry;

class WeightCache : public std::enable_shared_from_this<WeightCache> {
 public:
  // The file in `folder`, checked from its size to the last entry of its table before anything of
  // it is used. kIoError where there is none, kInvalidArgument where it is damaged, stale or of
  // other layouts.
  static Result<std::shared_ptr<WeightCache>> open(const std::string& folder,
                                                   std::string_view content_key);
  ~WeightCache();
  WeightCache(const WeightCache&) = delete;
  WeightCache& operator=(const WeightCache&) = delete;

  // The strips of a weight, which keep the file mapped; null where it is not in the file.
  [[nodiscard]] std::shared_ptr<const uint8_t> find(const PreparedWeight& weight) const;
  [[nodiscard]] bool has_all(std::span<const std::shared_ptr<PreparedWeight>> weights) const;
  // The whole file, mapped by this object alone, which it keeps.
  [[nodiscard]] std::shared_ptr<const MappedFile> file() const {
    return {shared_from_this(), &file_};
  }

 private:
  struct Place {
    uint64_t offset, n_bytes;
  };
  using Key = std::tuple<uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, uint64_t, uint64_t>;
  static Key key_of(const CacheEntry& entry);

  explicit WeightCache(const MappedFile& file) : file_(file) {}

  const MappedFile file_;
  std::map<Key, Place> places_;
};

// Strips of rows that lie in a file of the model: others have no name to be found by.
[[nodiscard]] bool is_cacheable(const PreparedWeight& weight);

}  // namespace bp::cpu
