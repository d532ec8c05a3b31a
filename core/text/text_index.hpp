#pragma once
// A flat hash map from byte strings to token ids, built once and then only read.

#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "core/text/vocabulary.hpp"

namespace bp::text {

[[nodiscard]] inline uint64_t hash_bytes(std::string_view bytes) {
  constexpr uint64_t kMultiplier = 0x9E3779B97F4A7C15;
  const auto mix = [](uint64_t h) { return (h ^ (h >> 32)) * kMultiplier; };
  const char* p = bytes.data();
  size_t left = bytes.size();
  uint64_t hash = left;
  for (uint64_t chunk; left >= 8; p += 8, left -= 8) {
    std::memcpy(&chunk, p, 8);
    hash = mix(hash ^ chunk);
  }
  if (left > 0) {
    uint64_t chunk = 0;
    std::memcpy(&chunk, p, left);
    hash = mix(hash ^ chunk);
  }
  return hash ^ (hash >> 29);
}

class TextIndex {
 public:
  // Room for n_texts; the bytes of every inserted text must outlive the index.
  explicit TextIndex(size_t n_texts) : slots_(std::bit_ceil(2 * n_texts + 2)) {}

  // Keeps the first id of equal texts. An empty text is never found.
  void insert(std::string_view text, int32_t id) {
    if (text.empty()) return;
    Slot& slot = slots_[position_of(text)];
    if (slot.id != kNoToken) return;
    slot = {text, id};
    max_size_ = std::max(max_size_, text.size());
  }

  [[nodiscard]] int32_t find(std::string_view text) const {
    return text.size() > max_size_ ? kNoToken : slots_[position_of(text)].id;
  }

  // Bytes of the longest text.
  [[nodiscard]] size_t max_size() const { return max_size_; }

 private:
  struct Slot {
    std::string_view text;
    int32_t id = kNoToken;
  };

  // The slot that holds the text or, by linear probing, the free one where it belongs.
  [[nodiscard]] size_t position_of(std::string_view text) const {
    const size_t mask = slots_.size() - 1;
    size_t i = hash_bytes(text) & mask;
    while (slots_[i].id != kNoToken && slots_[i].text != text) i = (i + 1) & mask;
    return i;
  }

  std::vector<Slot> slots_;
  size_t max_size_ = 0;
};

}  // namespace bp::text
