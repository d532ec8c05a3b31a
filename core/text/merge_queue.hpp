#pragma once
// Pairs of neighbouring symbols that wait to be joined, by rank, then from left to right.

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

namespace bp::text {

struct MergeCandidate {
  uint32_t rank;
  uint32_t left;  // index of the left symbol
  uint32_t size;  // bytes of both; tells whether the candidate is still as it was
  int32_t id;
};

// Nearly all candidates of a rank come in their order, and wait in a line of their own; the others
// wait in a heap. So a long text that repeats itself takes time in proportion to its length, where
// a heap of them all would take a logarithm more, and miss the caches.
class MergeQueue {
 public:
  void clear() {
    nodes_.clear();
    free_ = kNone;
    lines_.clear();
    waiting_.clear();
    late_.clear();
    slots_.assign(kFewSlots, kNone);
  }

  [[nodiscard]] bool empty() const { return waiting_.empty() && late_.empty(); }

  void push(const MergeCandidate& candidate) {
    const uint32_t at = line_of(candidate.rank);
    Line& line = lines_[at];
    if (line.first == kNone) {
      line.first = line.last = new_node(candidate);
      waiting_.push_back(at);
      std::ranges::push_heap(waiting_, HasHigherRank{lines_});
    } else if (nodes_[line.last].candidate.left <= candidate.left) {
      const uint32_t node = new_node(candidate);
      nodes_[line.last].next = node;
      line.last = node;
    } else {
      late_.push_back(candidate);
      std::ranges::push_heap(late_, is_worse);
    }
  }

  // Takes out the best; there must be one.
  MergeCandidate pop() {
    if (waiting_.empty() || (!late_.empty() && is_worse(front(), late_.front()))) return pop_late();
    Line& line = lines_[waiting_.front()];
    const uint32_t node = line.first;
    line.first = nodes_[node].next;
    nodes_[node].next = free_;
    free_ = node;
    if (line.first == kNone) {
      std::ranges::pop_heap(waiting_, HasHigherRank{lines_});
      waiting_.pop_back();
    }
    return nodes_[node].candidate;
  }

 private:
  static constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();
  static constexpr size_t kFewSlots = 64;

  struct Node {
    MergeCandidate candidate;
    uint32_t next;  // in its line, or free too
  };
  struct Line {
    uint32_t rank;
    uint32_t first, last;  // nodes; first is kNone where nothing waits
  };

  struct HasHigherRank {
    const std::vector<Line>& lines;
    bool operator()(uint32_t a, uint32_t b) const { return lines[a].rank > lines[b].rank; }
  };
  static bool is_worse(const MergeCandidate& a, const MergeCandidate& b) {
    return a.rank != b.rank ? a.rank > b.rank : a.left > b.left;
  }
  [[nodiscard]] const MergeCandidate& front() const {
    return nodes_[lines_[waiting_.front()].first].candidate;
  }

  MergeCandidate pop_late() {
    std::ranges::pop_heap(late_, is_worse);
    const MergeCandidate best = late_.back();
    late_.pop_back();
    return best;
  }

  uint32_t new_node(const MergeCandidate& candidate) {
    if (free_ == kNone) {
      nodes_.push_back({candidate, kNone});
      return static_cast<uint32_t>(nodes_.size() - 1);
    }
    const uint32_t node = free_;
    free_ = nodes_[node].next;
    nodes_[node] = {candidate, kNone};
    return node;
  }

  // Index of the rank's line, which is made where there is none. Lines are found by open addressing
  // in a table at most half full.
  uint32_t line_of(uint32_t rank) {
    if (slots_.size() <= 2 * lines_.size()) grow();
    uint32_t& slot = slots_[slot_of(rank)];
    if (slot == kNone) {
      slot = static_cast<uint32_t>(lines_.size());
      lines_.push_back({rank, kNone, kNone});
    }
    return slot;
  }
  [[nodiscard]] size_t slot_of(uint32_t rank) const {
    const size_t mask = slots_.size() - 1;
    size_t at = (rank * 0x9E3779B97F4A7C15u >> 32) & mask;
    while (slots_[at] != kNone && lines_[slots_[at]].rank != rank) at = (at + 1) & mask;
    return at;
  }
  void grow() {
    slots_.assign(std::max(kFewSlots, 2 * slots_.size()), kNone);
    for (uint32_t i = 0; i < lines_.size(); ++i) slots_[slot_of(lines_[i].rank)] = i;
  }

  std::vector<Node> nodes_;
  uint32_t free_ = kNone;  // the first of a list
  std::vector<Line> lines_;
  std::vector<uint32_t> slots_;       // of the table: lines; as many as a power of two
  std::vector<uint32_t> waiting_;     // lines in which something waits, a heap by their rank
  std::vector<MergeCandidate> late_;  // a heap
};

}  // namespace bp::text
