#pragma once
// A flat hash map from the texts of tokens to their ids, built once and then only read.

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "core/text/hash.hpp"
#include "core/text/text_list.hpp"
#include "core/text/vocabulary.hpp"

namespace bp::text {

// All of 1 to 7 bytes, by loads of fixed size.
[[nodiscard]] inline uint64_t load_tail(const char* p, size_t n) {
  if (n >= 4) {
    uint32_t low;
    uint32_t high;
    std::memcpy(&low, p, 4);
    std::memcpy(&high, p + n - 4, 4);
    return uint64_t{high} << 32 | low;
  }
  const auto at = [p](size_t i) { return uint64_t{static_cast<uint8_t>(p[i])}; };
  return at(0) << 16 | at(n / 2) << 8 | at(n - 1);
}

[[nodiscard]] inline uint64_t hash_bytes(std::string_view bytes) {
  const char* p = bytes.data();
  size_t left = bytes.size();
  uint64_t hash = left ^ kHashSeed;
  for (uint64_t chunk; left >= 8; p += 8, left -= 8) {
    std::memcpy(&chunk, p, 8);
    hash = mix_bits(hash ^ chunk);
  }
  if (left > 0) hash = mix_bits(hash ^ load_tail(p, left));
  return hash ^ (hash >> 29);
}

class TextIndex {
 public:
  // texts: by id; stays where and as it is while the index lives.
  explicit TextIndex(const TextList& texts)
      : texts_(&texts), slots_(std::bit_ceil(texts.size() + texts.size() / 2 + 2)) {}

  // Keeps the first id of equal texts. An empty text is never found.
  void insert(int32_t id) {
    const std::string_view text = (*texts_)[static_cast<size_t>(id)];
    if (text.empty()) return;
    const uint64_t hash = hash_bytes(text);
    Slot& slot = slots_[position_of(text, hash)];
    if (slot.id != kNoToken) return;
    slot = {id, tag_of(hash)};
    max_size_ = std::max(max_size_, text.size());
  }

  [[nodiscard]] int32_t find(std::string_view text) const {
    if (text.size() > max_size_) return kNoToken;
    return slots_[position_of(text, hash_bytes(text))].id;
  }

  // Bytes of the longest text.
  [[nodiscard]] size_t max_size() const { return max_size_; }

 private:
  struct Slot {
    int32_t id = kNoToken;
    uint32_t tag = 0;  // of the text's hash; spares most comparisons of unequal texts
  };

  static uint32_t tag_of(uint64_t hash) { return static_cast<uint32_t>(hash >> 32); }

  // The slot that holds the text or, by linear probing, the free one where it belongs.
  [[nodiscard]] size_t position_of(std::string_view text, uint64_t hash) const {
    const size_t mask = slots_.size() - 1;
    for (size_t i = hash & mask;; i = (i + 1) & mask) {
      const Slot& slot = slots_[i];
      if (slot.id == kNoToken) return i;
      if (slot.tag == tag_of(hash) && (*texts_)[static_cast<size_t>(slot.id)] == text) return i;
    }
  }

  const TextList* texts_;
  std::vector<Slot> slots_;
  size_t max_size_ = 0;
};

}  // namespace bp::text
