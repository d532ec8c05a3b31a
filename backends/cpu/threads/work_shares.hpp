#pragma once
// The items of one phase of a step: workers take them until none is left, and the phase is over
// when all are complete. A worker that is off its core between two items holds nobody up.

#include <atomic>
#include <cstdint>
#include <vector>

namespace bp::cpu {

class WorkShares {
 public:
  static constexpr uint32_t kNone = ~0u;
  static constexpr uint32_t kMaxPhase = (1u << 19) - 1;
  static constexpr uint32_t kMaxItems = (1u << 22) - 1;

  explicit WorkShares(uint32_t n_workers) : shares_(n_workers) {}

  // Opens a phase of 1 to kMaxItems items, those of the phase before being complete. Phases that
  // follow each other have different numbers. in_order: items are taken in ascending order;
  // otherwise each worker has a contiguous share, takes it from its front, and then takes from the
  // back of the others'.
  void open(uint32_t phase, uint32_t n_items, bool in_order);

  // Items that follow each other, [begin, end).
  struct Run {
    uint32_t begin = 0, end = 0;
    [[nodiscard]] uint32_t size() const { return end - begin; }
  };
  // Items of the phase; none where none is left or the phase is over. A worker takes runs of its
  // share, shorter and shorter ones: what is written between two takings has to reach the caches
  // before the second. [any-thread]
  Run take(uint32_t phase, uint32_t worker);

  // n > 0 items of the open phase are complete; true where they were the last. [any-thread]
  bool complete(uint32_t n) { return n_open_.fetch_sub(n, std::memory_order_acq_rel) == n; }

 private:
  // Items [begin, end) of a phase in one word, so that none can be taken for another phase.
  struct alignas(64) Share {
    std::atomic<uint64_t> left{0};
  };

  std::vector<Share> shares_;                    // of the workers
  alignas(64) std::atomic<uint32_t> n_open_{0};  // items not complete
};

// The items of a phase as one worker takes them.
class Items {
 public:
  Items(WorkShares& shares, uint32_t phase, uint32_t worker)
      : shares_(shares), phase_(phase), worker_(worker) {}

  // WorkShares::kNone after the last.
  uint32_t next() {
    if (run_.size() == 0) {
      run_ = shares_.take(phase_, worker_);
      n_taken_ += run_.size();
      if (run_.size() == 0) return WorkShares::kNone;
    }
    return run_.begin++;
  }
  [[nodiscard]] uint32_t n_taken() const { return n_taken_; }

 private:
  WorkShares& shares_;
  const uint32_t phase_, worker_;
  WorkShares::Run run_;
  uint32_t n_taken_ = 0;
};

}  // namespace bp::cpu
