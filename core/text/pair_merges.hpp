#pragma once
// A flat hash map from a pair of token ids to its merge, built once and then only read.

#include <bit>
#include <cstdint>
#include <vector>

#include "core/text/hash.hpp"
#include "core/text/merge.hpp"

namespace bp::text {

class PairMerges {
 public:
  explicit PairMerges(size_t n_pairs) : slots_(std::bit_ceil(n_pairs + n_pairs / 2 + 2)) {}

  // Keeps the first merge of equal pairs. Precondition: left and right are tokens.
  void insert(int32_t left, int32_t right, PairMerge merge) {
    Slot& slot = slots_[position_of(key_of(left, right))];
    if (slot.key == kFree) slot = {key_of(left, right), merge};
  }

  // Calls visit(left, right, merge) for all, in no order.
  template <class Visit>
  void for_each(const Visit& visit) const {
    for (const Slot& slot : slots_) {
      if (slot.key == kFree) continue;
      visit(static_cast<int32_t>(slot.key >> 32), static_cast<int32_t>(slot.key & 0xFFFFFFFFu),
            slot.merge);
    }
  }

  // No merge for kNoToken.
  [[nodiscard]] PairMerge find(int32_t left, int32_t right) const {
    return slots_[position_of(key_of(left, right))].merge;
  }

 private:
  static constexpr uint64_t kFree = ~uint64_t{0};  // the key of {kNoToken, kNoToken}
  struct Slot {
    uint64_t key = kFree;
    PairMerge merge;
  };

  static uint64_t key_of(int32_t left, int32_t right) {
    return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
  }

  // The slot that holds the key or, by linear probing, the free one where it belongs.
  [[nodiscard]] size_t position_of(uint64_t key) const {
    const size_t mask = slots_.size() - 1;
    size_t i = mix_bits(key) & mask;
    while (slots_[i].key != key && slots_[i].key != kFree) i = (i + 1) & mask;
    return i;
  }

  std::vector<Slot> slots_;
};

}  // namespace bp::text
