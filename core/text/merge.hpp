#pragma once
// The merge loop that byte-level BPE and SentencePiece share: of all neighbouring symbols that form
// a token, the pair of lowest rank is joined, the leftmost first among equals, until none is left.

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "core/text/merge_queue.hpp"
#include "core/text/vocabulary.hpp"

namespace bp::text {

struct Symbol {
  uint32_t begin;  // byte offset in the piece
  uint32_t size;   // bytes
  int32_t id;      // kNoToken where these bytes are no token
};

inline constexpr uint32_t kNoMerge = std::numeric_limits<uint32_t>::max();

struct PairMerge {
  uint32_t rank = kNoMerge;
  int32_t id = kNoToken;  // of the joined symbol
};

// Buffers of one thread, reused from piece to piece.
struct MergeScratch {
  std::vector<Symbol> symbols;
  std::vector<PairMerge> pairs;
  std::vector<uint32_t> previous;
  std::vector<uint32_t> next;
  MergeQueue queue;
};

namespace merge_detail {

// Quadratic, but the fastest for a few symbols.
template <class MergeOf>
void merge_by_scan(MergeScratch& scratch, const MergeOf& merge_of) {
  auto& symbols = scratch.symbols;
  auto& pairs = scratch.pairs;  // pairs[i] joins symbols i and i + 1
  pairs.clear();
  for (size_t i = 0; i + 1 < symbols.size(); ++i) {
    pairs.push_back(merge_of(symbols[i], symbols[i + 1]));
  }
  while (!pairs.empty()) {
    const auto best = std::ranges::min_element(pairs, {}, &PairMerge::rank);
    if (best->rank == kNoMerge) return;
    const auto i = best - pairs.begin();
    symbols[i].id = best->id;
    symbols[i].size += symbols[i + 1].size;
    symbols.erase(symbols.begin() + i + 1);
    pairs.erase(best);
    if (i > 0) pairs[i - 1] = merge_of(symbols[i - 1], symbols[i]);
    if (static_cast<size_t>(i) < pairs.size()) pairs[i] = merge_of(symbols[i], symbols[i + 1]);
  }
}

// A linked list of symbols and a queue of candidates, stale ones being skipped.
template <class MergeOf>
class QueueMerger {
 public:
  QueueMerger(MergeScratch& scratch, const MergeOf& merge_of) : s_(scratch), merge_of_(merge_of) {}

  void run() {
    link_neighbours();
    while (!s_.queue.empty()) {
      const MergeCandidate best = s_.queue.pop();
      if (is_current(best)) join(best);
    }
    std::erase_if(s_.symbols, [](const Symbol& symbol) { return symbol.size == 0; });
  }

 private:
  static constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();

  void link_neighbours() {
    const auto n = static_cast<uint32_t>(s_.symbols.size());
    s_.previous.resize(n);
    s_.next.resize(n);
    s_.queue.clear();
    for (uint32_t i = 0; i < n; ++i) {
      s_.previous[i] = i == 0 ? kNone : i - 1;
      s_.next[i] = i + 1 == n ? kNone : i + 1;
      if (i + 1 < n) propose(i, i + 1);
    }
  }

  void propose(uint32_t left, uint32_t right) {
    const Symbol& a = s_.symbols[left];
    const Symbol& b = s_.symbols[right];
    const PairMerge merge = merge_of_(a, b);
    if (merge.rank == kNoMerge) return;
    s_.queue.push({merge.rank, left, a.size + b.size, merge.id});
  }

  // Symbols only grow, so that an equal sum means both are as they were.
  [[nodiscard]] bool is_current(const MergeCandidate& c) const {
    const uint32_t right = s_.next[c.left];
    const uint32_t left_size = s_.symbols[c.left].size;
    return left_size != 0 && right != kNone && left_size + s_.symbols[right].size == c.size;
  }

  void join(const MergeCandidate& c) {
    const uint32_t right = s_.next[c.left];
    s_.symbols[c.left].size = c.size;
    s_.symbols[c.left].id = c.id;
    s_.symbols[right].size = 0;
    s_.next[c.left] = s_.next[right];
    if (s_.next[right] != kNone) {
      s_.previous[s_.next[right]] = c.left;
      propose(c.left, s_.next[right]);
    }
    if (s_.previous[c.left] != kNone) propose(s_.previous[c.left], c.left);
  }

  MergeScratch& s_;
  const MergeOf& merge_of_;
};

}  // namespace merge_detail

// Merges scratch.symbols in place. MergeOf: PairMerge(const Symbol& left, const Symbol& right).
template <class MergeOf>
void merge_symbols(MergeScratch& scratch, const MergeOf& merge_of) {
  constexpr size_t kMostToScan = 40;
  if (scratch.symbols.size() <= kMostToScan) {
    merge_detail::merge_by_scan(scratch, merge_of);
  } else {
    merge_detail::QueueMerger<MergeOf>(scratch, merge_of).run();
  }
}

}  // namespace bp::text
