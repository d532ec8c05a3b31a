// First come, first served, with mistakes.

#include "backplane/scheduler.hpp"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <numeric>
#include <vector>

#include "factories.hpp"
#include "mutation.hpp"

namespace bp::wrong {

namespace {

uint32_t n_calls_of_all = 0;  // the mistake of state that is nobody's

class FirstCome final : public Scheduler {
 public:
  static Result<std::unique_ptr<Scheduler>> create(const Host&, const Params&) {
    return std::unique_ptr<Scheduler>(std::make_unique<FirstCome>());
  }

  Status schedule(const bp_snapshot& s, bp_decision& d) override {
    if (makes("fails-on-empty") && s.n_seqs == 0) return invalid_argument("no sequences");
    if (makes("does-nothing")) return {};
    s_ = &s, d_ = &d;
    tokens_ = makes("over-budget") ? UINT32_MAX : s.max_step_tokens;
    places_ = makes("over-places") ? UINT32_MAX : s.max_sequences;
    blocks_ = makes("over-blocks") ? UINT32_MAX / 2 : s.free_blocks;
    preempted_ = false;
    const std::vector<uint32_t> order = order_of(s);
    for (const uint32_t i : order) run(order, i);
    for (const uint32_t i : order) {
      if (!admit(i)) break;
    }
    spoil(s, d);
    return {};
  }

 private:
  std::vector<uint32_t> order_of(const bp_snapshot& s) {
    std::vector<uint32_t> order(s.n_seqs);
    std::iota(order.begin(), order.end(), 0u);
    if (makes("last-come-first-served")) std::reverse(order.begin(), order.end());
    if (makes("shortest-first")) {
      std::stable_sort(order.begin(), order.end(),
                       [&](uint32_t a, uint32_t b) { return s.n_tokens[a] < s.n_tokens[b]; });
    }
    const bool odd = (makes("own-random") && std::rand() % 2 == 0) ||
                     (makes("state-of-all") && ++n_calls_of_all % 2 == 0);
    if (odd) std::reverse(order.begin(), order.end());
    if (makes("remembers-all")) {
      for (uint32_t i = 0; i < s.n_seqs; ++i) seen_.emplace(s.id[i] + s.arrival_us[i], s.step);
    }
    return order;
  }
  [[nodiscard]] bool runs(uint32_t i) const {
    return s_->state[i] == BP_SEQ_RUNNING && d_->preempt[i] == BP_KEEP;
  }
  [[nodiscard]] uint32_t done(uint32_t i) const {
    return s_->state[i] == BP_SEQ_RUNNING ? s_->n_computed[i] : s_->n_cached[i];
  }
  [[nodiscard]] uint32_t left(uint32_t i) const { return s_->n_tokens[i] - done(i); }
  [[nodiscard]] uint32_t missing(uint32_t i, uint32_t n) const {
    const uint32_t needed = (done(i) + n + s_->block_size - 1) / s_->block_size;
    return needed > s_->n_held[i] ? needed - s_->n_held[i] : 0;
  }
  void take(uint32_t i, uint32_t n) {
    d_->n_tokens[i] = n;
    tokens_ -= n, blocks_ -= missing(i, n), --places_;
  }
  void run(const std::vector<uint32_t>& order, uint32_t i) {
    uint32_t n = std::min(left(i), tokens_);
    if (!runs(i) || n == 0 || places_ == 0) return;
    for (auto last = order.rbegin(); missing(i, 1) > blocks_ && *last != i; ++last) {
      if (!runs(*last)) continue;
      d_->preempt[*last] = BP_PREEMPT_RECOMPUTE;
      blocks_ += s_->n_held[*last];
      preempted_ = true;
    }
    while (n > 0 && missing(i, n) > blocks_) --n;
    if (n > 0) take(i, n);
  }
  bool admit(uint32_t i) {
    if (s_->state[i] != BP_SEQ_WAITING) return true;
    const uint32_t n = std::min(left(i), tokens_);
    if (preempted_ || n == 0 || places_ == 0 || missing(i, left(i)) > blocks_) return false;
    take(i, n);
    return true;
  }

  static void spoil(const bp_snapshot& s, bp_decision& d) {
    for (uint32_t i = 0; i < s.n_seqs; ++i) {
      const bool waits = s.state[i] == BP_SEQ_WAITING;
      if (makes("draft-tokens")) d.n_draft[i] = 1;
      if (makes("preempts-waiting") && waits) d.n_tokens[i] = 0, d.preempt[i] = 1;
      if (makes("preempts-and-runs") && d.n_tokens[i] > 0 && !waits) d.preempt[i] = 1;
      if (makes("unknown-preemption") && !waits && d.n_tokens[i] == 0) d.preempt[i] = 7;
      if (makes("too-many-tokens") && d.n_tokens[i] > 0) d.n_tokens[i] += 1;
      if (makes("thrashes") && !waits) d.n_tokens[i] = 0, d.preempt[i] = 1;
    }
    if (makes("writes-past-columns")) d.n_tokens[s.n_seqs] = 1;
  }

  const bp_snapshot* s_ = nullptr;
  bp_decision* d_ = nullptr;
  uint32_t tokens_ = 0, places_ = 0, blocks_ = 0;
  bool preempted_ = false;
  std::map<uint64_t, uint64_t> seen_;
};

// Without the layer's look at the bits that the snapshot requires.
bp_status schedule(bp_scheduler* scheduler, const bp_snapshot* snapshot, bp_decision* decision,
                   bp_error* error) {
  bp_snapshot copy = copy_growable(snapshot);
  if (makes("unknown-bits-accepted")) copy.required = 0;
  return detail::SchedulerAdapter<FirstCome>::schedule(scheduler, &copy, decision, error);
}

using A = detail::SchedulerAdapter<FirstCome>;

}  // namespace

const bp_scheduler_factory kScheduler = {sizeof kScheduler, 0, A::create, A::destroy, schedule};

}  // namespace bp::wrong
