#pragma once
// Which of many byte strings a text begins with: a trie whose edges lie in one flat hash map, built
// once and then only read.

#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "core/text/hash.hpp"
#include "core/text/vocabulary.hpp"

namespace bp::text {

class ByteTrie {
 public:
  using Entry = std::pair<std::string_view, int32_t>;  // text, id

  ByteTrie() : ByteTrie(std::vector<Entry>{}) {}

  // Keeps the first id of equal texts; leaves empty ones out.
  explicit ByteTrie(std::vector<Entry> entries) {
    std::ranges::stable_sort(entries, {}, &Entry::first);
    size_t n_edges = 0;
    std::string_view last;
    for (const auto& [text, id] : entries) {
      n_edges += text.size() - common_size(last, text);
      last = text;
    }
    slots_.resize(std::bit_ceil(n_edges + n_edges / 2 + 2));
    for (const auto& [text, id] : entries) insert(text, id);
  }

  // Calls each(size, id) for all texts that `text` begins with, the shortest first.
  template <class Each>
  void for_each_prefix(std::string_view text, const Each& each) const {
    uint32_t node = kRoot;
    for (size_t i = 0; i < text.size(); ++i) {
      const Slot& slot = slots_[position_of(node, text[i])];
      if (slot.child == kNoNode) return;
      node = slot.child;
      if (slot.id != kNoToken) each(i + 1, slot.id);
    }
  }

  [[nodiscard]] bool contains(std::string_view text) const {
    bool found = false;
    for_each_prefix(text, [&](size_t size, int32_t) { found = size == text.size(); });
    return found;
  }

 private:
  static constexpr uint32_t kRoot = 0, kNoNode = 0;  // no edge leads to the root
  struct Slot {
    uint32_t parent = 0;
    uint32_t child = kNoNode;
    int32_t id = kNoToken;  // of the text that ends with this edge
    uint8_t byte = 0;
  };

  static size_t common_size(std::string_view a, std::string_view b) {
    return static_cast<size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
  }

  void insert(std::string_view text, int32_t id) {
    uint32_t node = kRoot;
    for (size_t i = 0; i < text.size(); ++i) {
      Slot& slot = slots_[position_of(node, text[i])];
      if (slot.child == kNoNode) slot = {node, ++n_nodes_, kNoToken, static_cast<uint8_t>(text[i])};
      node = slot.child;
      if (i + 1 == text.size() && slot.id == kNoToken) slot.id = id;
    }
  }

  // The slot of the edge or, by linear probing, the free one where it belongs.
  [[nodiscard]] size_t position_of(uint32_t parent, char c) const {
    const auto byte = static_cast<uint8_t>(c);
    const size_t mask = slots_.size() - 1;
    size_t i = mix_bits(uint64_t{parent} << 8 | byte) & mask;
    while (slots_[i].child != kNoNode && (slots_[i].parent != parent || slots_[i].byte != byte)) {
      i = (i + 1) & mask;
    }
    return i;
  }

  std::vector<Slot> slots_;
  uint32_t n_nodes_ = 0;
};

}  // namespace bp::text
