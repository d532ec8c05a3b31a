// The fewest tokens left to compute go first, so that short prompts do not wait for long ones. Who
// has been here longer than `patience_ms` goes before all others, in order of arrival.
//
// A running sequence that needs a block takes those of the last one in that order, which is
// computed again later. So the oldest one always gets on, and everybody becomes the oldest.

#include <algorithm>
#include <numeric>
#include <tuple>
#include <vector>

#include "backplane/scheduler.hpp"

namespace {

class ShortestFirst final : public bp::Scheduler {
 public:
  static bp::Result<std::unique_ptr<bp::Scheduler>> create(const bp::Host&,
                                                           const bp::Params& config) {
    auto made = std::make_unique<ShortestFirst>();
    made->max_chunk_ = static_cast<uint32_t>(config.get_int("max_chunk", 512));
    made->patience_us_ = static_cast<uint64_t>(config.get_int("patience_ms", 2000)) * 1000;
    return std::unique_ptr<bp::Scheduler>(std::move(made));
  }

  bp::Status schedule(const bp_snapshot& s, bp_decision& d) override {
    Step step{s, d, max_chunk_, s.free_blocks, s.max_step_tokens, s.max_sequences, {}};
    step.order.resize(s.n_seqs);
    std::iota(step.order.begin(), step.order.end(), 0u);
    const auto late = [&](uint32_t i) { return s.now_us - s.arrival_us[i] >= patience_us_; };
    const auto key = [&](uint32_t i) {  // sequences stand in order of arrival
      return std::tuple(!late(i), late(i) ? 0 : step.left(i), i);
    };
    std::sort(step.order.begin(), step.order.end(),
              [&](uint32_t a, uint32_t b) { return key(a) < key(b); });
    for (const uint32_t i : step.order) step.run(i);
    for (const uint32_t i : step.order) {
      if (step.preempted || (!step.admit(i) && late(i))) break;  // nobody overtakes who is late
    }
    return {};
  }

 private:
  struct Step {
    const bp_snapshot& s;
    bp_decision& d;
    uint32_t max_chunk, blocks, tokens, places;  // what is left of the step
    std::vector<uint32_t> order;
    uint32_t n_running = 0;
    bool preempted = false;  // then nobody is admitted

    bool runs(uint32_t i) const { return s.state[i] == BP_SEQ_RUNNING && d.preempt[i] == BP_KEEP; }
    uint32_t done(uint32_t i) const { return runs(i) ? s.n_computed[i] : s.n_cached[i]; }
    uint32_t left(uint32_t i) const { return s.n_tokens[i] - done(i); }
    // Blocks that i lacks to compute n tokens more.
    uint32_t missing(uint32_t i, uint32_t n) const {
      const uint32_t needed = (done(i) + n + s.block_size - 1) / s.block_size;
      return needed > s.n_held[i] ? needed - s.n_held[i] : 0;
    }
    bool take(uint32_t i, uint32_t n) {
      d.n_tokens[i] = n;
      tokens -= n, blocks -= missing(i, n), --places;
      return true;
    }

    void run(uint32_t i) {
      if (!runs(i)) return;
      ++n_running;
      uint32_t n = std::min({left(i), max_chunk, tokens});
      if (n == 0 || places == 0) return;
      for (uint32_t k = s.n_seqs - 1; missing(i, 1) > blocks; --k) {  // from the last in order
        if (order[k] == i) return;
        if (!runs(order[k])) continue;
        d.preempt[order[k]] = BP_PREEMPT_RECOMPUTE;
        blocks += s.n_held[order[k]];
        preempted = true;
      }
      while (missing(i, n) > blocks) --n;
      take(i, n);
    }
    // With room for its whole prompt, and a block for everybody who runs.
    bool admit(uint32_t i) {
      if (s.state[i] != BP_SEQ_WAITING) return true;
      const uint32_t n = std::min({left(i), max_chunk, tokens});
      if (n == 0 || places == 0 || n_running >= s.max_sequences) return false;
      if (missing(i, left(i)) + n_running > blocks) return false;
      ++n_running;
      return take(i, n);
    }
  };

  uint32_t max_chunk_ = 0;
  uint64_t patience_us_ = 0;
};

constexpr bp_scheduler_factory kFactory = bp::scheduler_factory<ShortestFirst>();

}  // namespace

BP_PLUGIN("shortest-first", "1.0.0", {BP_SCHEDULER_ID, &kFactory});
