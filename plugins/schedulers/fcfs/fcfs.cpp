// First come, first served within a priority. Each step runs, in this order and as far as budget
// and blocks go: one token of every decoding sequence, the next chunk of every prompt in work, and
// the first chunk of waiting prompts, as long as the next one fits as a whole.
//
// A running sequence that needs blocks takes them from the last running one in that order, which is
// computed again later. Nobody is admitted in such a step.

#include <algorithm>
#include <numeric>
#include <vector>

#include "backplane/scheduler.hpp"

namespace {

class Step {
 public:
  Step(const bp_snapshot& snapshot, bp_decision& decision, double watermark)
      : s_(snapshot),
        d_(decision),
        watermark_(static_cast<uint32_t>(watermark * snapshot.n_blocks)),
        free_blocks_(snapshot.free_blocks),
        tokens_(snapshot.max_step_tokens),
        slots_(snapshot.max_sequences),
        order_(snapshot.n_seqs) {
    std::iota(order_.begin(), order_.end(), 0u);
    std::stable_sort(order_.begin(), order_.end(),
                     [&](uint32_t a, uint32_t b) { return s_.priority[a] > s_.priority[b]; });
  }

  void run() {
    for (const uint32_t i : order_) {
      if (running(i) && remaining(i) == 1) run_running(i);
    }
    for (const uint32_t i : order_) {
      if (running(i) && remaining(i) > 1) run_running(i);
    }
    if (!preempted_) admit();
  }

 private:
  [[nodiscard]] bool running(uint32_t i) const {
    return s_.state[i] == BP_SEQ_RUNNING && d_.preempt[i] == BP_KEEP;
  }
  [[nodiscard]] uint32_t base(uint32_t i) const {
    return s_.state[i] == BP_SEQ_RUNNING ? s_.n_computed[i] : s_.n_cached[i];
  }
  [[nodiscard]] uint32_t remaining(uint32_t i) const { return s_.n_tokens[i] - base(i); }
  [[nodiscard]] uint32_t blocks_for(uint64_t n_tokens) const {
    return static_cast<uint32_t>((n_tokens + s_.block_size - 1) / s_.block_size);
  }
  [[nodiscard]] uint32_t missing(uint32_t i, uint32_t n) const {
    const uint32_t needed = blocks_for(uint64_t{base(i)} + n);
    return needed > s_.n_held[i] ? needed - s_.n_held[i] : 0;
  }
  // Tokens of i that find room in its blocks and the free ones, at most n.
  [[nodiscard]] uint32_t fitting(uint32_t i, uint32_t n) const {
    const uint64_t room = (uint64_t{s_.n_held[i]} + free_blocks_) * s_.block_size;
    return static_cast<uint32_t>(std::min<uint64_t>(n, room > base(i) ? room - base(i) : 0));
  }

  void take(uint32_t i, uint32_t n) {
    free_blocks_ -= missing(i, n);
    tokens_ -= n;
    --slots_;
    d_.n_tokens[i] = n;
  }

  void run_running(uint32_t i) {
    if (slots_ == 0 || tokens_ == 0) return;
    const uint32_t wanted = std::min(remaining(i), tokens_);
    while (fitting(i, wanted) == 0 && preempt_last_after(i)) {
    }
    if (const uint32_t n = fitting(i, wanted); n > 0) take(i, n);
  }

  // The last sequence that runs, comes after i and has not got tokens in this step.
  bool preempt_last_after(uint32_t i) {
    for (auto it = order_.rbegin(); it != order_.rend() && *it != i; ++it) {
      if (!running(*it) || d_.n_tokens[*it] != 0) continue;
      d_.preempt[*it] = BP_PREEMPT_RECOMPUTE;
      free_blocks_ += s_.n_held[*it];
      preempted_ = true;
      return true;
    }
    return false;
  }

  // Blocks that prompts in work still need are spoken for.
  [[nodiscard]] uint32_t spoken_for() const {
    uint32_t n = 0;
    for (uint32_t i = 0; i < s_.n_seqs; ++i) {
      if (!running(i)) continue;
      n += missing(i, remaining(i)) - missing(i, d_.n_tokens[i]);
    }
    return n;
  }

  void admit() {
    uint32_t n_running = 0;
    for (uint32_t i = 0; i < s_.n_seqs; ++i) n_running += running(i) ? 1 : 0;
    uint32_t reserved = spoken_for();
    for (const uint32_t i : order_) {
      if (s_.state[i] != BP_SEQ_WAITING) continue;
      if (tokens_ == 0 || slots_ == 0 || n_running >= s_.max_sequences) return;
      const uint32_t whole = missing(i, remaining(i));
      const uint32_t kept_free = n_running == 0 ? 0 : reserved + watermark_;
      if (uint64_t{whole} + kept_free > free_blocks_) return;
      const uint32_t n = std::min(remaining(i), tokens_);
      reserved += whole - missing(i, n);
      take(i, n);
      ++n_running;
    }
  }

  const bp_snapshot& s_;
  bp_decision& d_;
  uint32_t watermark_;
  uint32_t free_blocks_;
  uint32_t tokens_;
  uint32_t slots_;
  bool preempted_ = false;
  std::vector<uint32_t> order_;  // priority, then arrival
};

class FirstComeFirstServed final : public bp::Scheduler {
 public:
  static bp::Result<std::unique_ptr<bp::Scheduler>> create(const bp::Host&,
                                                           const bp::Params& config) {
    return std::unique_ptr<bp::Scheduler>(
        std::make_unique<FirstComeFirstServed>(config.get_float("watermark", 0.01)));
  }
  explicit FirstComeFirstServed(double watermark) : watermark_(watermark) {}

  bp::Status schedule(const bp_snapshot& snapshot, bp_decision& decision) override {
    Step(snapshot, decision, watermark_).run();
    return {};
  }

 private:
  double watermark_;
};

constexpr bp_scheduler_factory kFactory = bp::scheduler_factory<FirstComeFirstServed>();

}  // namespace

BP_PLUGIN("fcfs", "0.1.0", {BP_SCHEDULER_ID, &kFactory});
