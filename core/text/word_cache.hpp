#pragma once
// Ids of the words that a text held lately: prose repeats few words.

#include <array>
#include <bit>
#include <cstring>
#include <string_view>
#include <vector>

#include "core/text/text_index.hpp"

namespace bp::text {

class WordCache {
 public:
  // Holds nothing where the text is short: a word has to come again to be worth it.
  explicit WordCache(size_t text_bytes = 0) {
    constexpr size_t kLeastText = 2048, kBytesPerEntry = 16, kMostEntries = 4096;
    if (text_bytes < kLeastText) return;
    entries_.resize(std::min(std::bit_floor(text_bytes / kBytesPerEntry), kMostEntries));
  }

  // Appends the ids of a word; compute() appends them where they are not known. They must depend on
  // the word alone.
  template <class Compute>
  void append(std::string_view word, std::vector<int32_t>& ids, const Compute& compute) {
    if (entries_.empty() || word.empty() || word.size() > kMaxWordBytes) return compute();
    Entry& entry = entries_[hash_bytes(word) & (entries_.size() - 1)];
    if (entry.word_size == word.size() &&
        std::memcmp(entry.word.data(), word.data(), word.size()) == 0) {
      ids.insert(ids.end(), entry.ids.begin(), entry.ids.begin() + entry.n_ids);
      return;
    }
    const size_t n_before = ids.size();
    compute();
    const size_t n_ids = ids.size() - n_before;
    if (n_ids > kMaxIds) return;
    entry.word_size = static_cast<uint8_t>(word.size());
    entry.n_ids = static_cast<uint8_t>(n_ids);
    std::memcpy(entry.word.data(), word.data(), word.size());
    std::copy_n(ids.end() - static_cast<ptrdiff_t>(n_ids), n_ids, entry.ids.begin());
  }

 private:
  static constexpr size_t kMaxWordBytes = 30, kMaxIds = 8;
  struct alignas(64) Entry {
    uint8_t word_size = 0;  // 0: free
    uint8_t n_ids = 0;
    std::array<char, kMaxWordBytes> word;
    std::array<int32_t, kMaxIds> ids;
  };

  std::vector<Entry> entries_;  // by hash; a power of two
};

}  // namespace bp::text
