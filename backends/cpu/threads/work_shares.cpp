#include "backends/cpu/threads/work_shares.hpp"

#include <algorithm>
#include <cassert>

namespace bp::cpu {

namespace {

constexpr uint32_t kItemBits = 22;
constexpr uint32_t kOwnParts = 4;  // of what is left of its share, one of which a worker takes

// phase:19, in_order:1, begin:22, end:22.
struct ShareState {
  uint32_t phase;
  bool in_order;
  uint32_t begin, end;

  static ShareState unpack(uint64_t word) {
    const auto phase = static_cast<uint32_t>(word >> (2 * kItemBits + 1));
    return {phase, (word >> (2 * kItemBits) & 1) != 0,
            static_cast<uint32_t>(word >> kItemBits) & WorkShares::kMaxItems,
            static_cast<uint32_t>(word) & WorkShares::kMaxItems};
  }
  [[nodiscard]] uint64_t pack() const {
    const uint64_t head = uint64_t{phase} << 1 | (in_order ? 1 : 0);
    return head << (2 * kItemBits) | uint64_t{begin} << kItemBits | end;
  }
  WorkShares::Run take(bool owns) {
    if (!owns && !in_order) {
      --end;
      return {end, end + 1};
    }
    const uint32_t first = begin;
    begin += in_order ? 1 : std::max((end - begin) / kOwnParts, 1u);
    return {first, begin};
  }
};

WorkShares::Run take_from(std::atomic<uint64_t>& left, uint32_t phase, bool owns) {
  uint64_t word = left.load(std::memory_order_acquire);
  while (true) {
    ShareState state = ShareState::unpack(word);
    if (state.phase != phase || state.begin == state.end) return {};
    const WorkShares::Run run = state.take(owns);
    if (left.compare_exchange_weak(word, state.pack(), std::memory_order_acq_rel,
                                   std::memory_order_acquire)) {
      return run;
    }
  }
}

}  // namespace

void WorkShares::open(uint32_t phase, uint32_t n_items, bool in_order) {
  assert(phase <= kMaxPhase && n_items > 0 && n_items <= kMaxItems);
  n_open_.store(n_items, std::memory_order_relaxed);
  const uint64_t n = in_order ? 1 : shares_.size();
  for (uint64_t i = 0; i < shares_.size(); ++i) {
    const auto begin = static_cast<uint32_t>(std::min(i, n) * n_items / n);
    const auto end = static_cast<uint32_t>(std::min(i + 1, n) * n_items / n);
    shares_[i].left.store(ShareState{phase, in_order, begin, end}.pack(),
                          std::memory_order_release);
  }
}

WorkShares::Run WorkShares::take(uint32_t phase, uint32_t worker) {
  const auto n = static_cast<uint32_t>(shares_.size());
  Run run = take_from(shares_[worker].left, phase, true);
  for (uint32_t i = 1; run.size() == 0 && i < n; ++i) {
    run = take_from(shares_[(worker + i) % n].left, phase, false);
  }
  return run;
}

}  // namespace bp::cpu
