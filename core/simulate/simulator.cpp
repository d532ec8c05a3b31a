#include "core/simulate/simulator.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "core/engine/schedule.hpp"
#include "core/engine/step_budget.hpp"
#include "core/simulate/live_sequences.hpp"

namespace bp::simulate {

namespace {

constexpr uint64_t kMostEmptySteps = 1000;
constexpr uint64_t kStepsPerReport = 8192;

class Simulator {
 public:
  Simulator(const Trace& trace, const Limits& limits, const CostModel& cost,
            const plugin::SchedulerHandle& scheduler)
      : trace_(trace),
        limits_(limits),
        cost_(cost),
        scheduler_(scheduler),
        live_(trace, limits),
        budget_(uint64_t{limits.max_step_ms} * 1000, limits.max_step_tokens),
        patience_(2 * uint64_t{limits.n_blocks} * limits.block_size + kMostEmptySteps),
        outcome_(trace) {}

  Result<Outcome> run(const bp_progress* progress) {
    while (n_done_ < trace_.requests.size()) {
      admit();
      if (live_.empty()) {
        if (next_ < trace_.requests.size()) now_us_ = trace_.requests[next_].arrival_us;
        continue;
      }
      BP_TRY(step());
      if (outcome_.n_steps % kStepsPerReport != 0 || progress == nullptr) continue;
      if (progress->report(progress->user, n_done_, trace_.requests.size()) != 0) {
        return cancelled("the simulation was stopped");
      }
    }
    outcome_.end_us = now_us_;
    return std::move(outcome_);
  }

 private:
  void admit() {
    const auto& requests = trace_.requests;
    for (; next_ < requests.size() && requests[next_].arrival_us <= now_us_; ++next_) {
      if (!live_.fits(requests[next_])) {
        outcome_.requests[next_].refused = true;
        ++outcome_.n_refused;
        ++n_done_;
        continue;
      }
      if (limits_.max_queue > 0 && n_queued_ >= limits_.max_queue) break;
      live_.add(static_cast<uint32_t>(next_));
      outcome_.fairness.begin_wait(requests[next_].tenant);
      ++n_queued_;
    }
    arrived_ = std::max(arrived_, next_);
    while (arrived_ < requests.size() && requests[arrived_].arrival_us <= now_us_) ++arrived_;
    outcome_.longest_line = std::max<uint64_t>(outcome_.longest_line, arrived_ - next_);
  }

  Status step() {
    const engine::StepLimits limits = step_limits();
    const bp_snapshot snapshot = live_.snapshot(limits);
    auto& columns = live_.columns();
    bp_decision decision = columns.empty_decision(snapshot.n_seqs);
    const Status decided = engine::decide(scheduler_, snapshot, columns, decision);
    if (!decided.ok() && ++outcome_.n_invalid == 1) {
      outcome_.first_invalid = fmt::format("step {}: {}", outcome_.n_steps, decided.message());
    }
    outcome_.fairness.begin_step();
    apply();
    const StepLoad load = reserve();
    const uint64_t us = n_step_tokens_ == 0 ? 0 : step_us(load);
    note(us);
    commit();
    outcome_.fairness.end_step(us);
    return check_progress();
  }

  [[nodiscard]] engine::StepLimits step_limits() const {
    engine::StepLimits limits;
    limits.step = outcome_.n_steps;
    limits.now_us = now_us_;
    limits.last_step_us = last_step_us_;
    limits.last_step_tokens = last_step_tokens_;
    limits.max_step_tokens = budget_.tokens(live_.n_decoding());
    limits.max_sequences = limits_.max_sequences;
    limits.max_output_rows = limits_.max_sequences;
    return limits;
  }

  // Preemptions first, since their blocks are needed; found prefixes before blocks are allocated,
  // which might take them.
  void apply() {
    const auto& columns = live_.columns();
    for (size_t i = 0; i < live_.size(); ++i) {
      if (columns.preempt[i] != BP_KEEP) preempt(i);
    }
    for (size_t i = 0; i < live_.size(); ++i) {
      if (columns.run[i] > 0 && !live_.running(i)) start(i);
    }
  }

  void preempt(size_t i) {
    live_.preempt(i);
    outcome_.fairness.begin_wait(live_.columns().tenant[i]);
    ++outcome_.n_preemptions;
  }

  void start(size_t i) {
    const bool first_time = !live_.started(i);
    const uint32_t n_cached = live_.start(i);
    const auto& columns = live_.columns();
    outcome_.fairness.end_wait(columns.tenant[i]);
    if (!first_time) return;
    --n_queued_;
    outcome_.n_queried += columns.n_prompt[i];
    outcome_.n_cached += n_cached;
  }

  // Takes blocks; who gets none does not run. Answers what the step computes.
  StepLoad reserve() {
    StepLoad load;
    auto& columns = live_.columns();
    n_step_tokens_ = 0;
    for (size_t i = 0; i < live_.size(); ++i) {
      if (columns.run[i] == 0) continue;
      const uint32_t base = columns.n_computed[i];
      const uint32_t remaining = columns.n_tokens[i] - base;
      const uint32_t n = std::min(columns.run[i], remaining);
      columns.run[i] = live_.reserve(i, n) ? n : 0;
      if (columns.run[i] == 0) continue;
      columns.last_run_step[i] = outcome_.n_steps;
      n_step_tokens_ += n;
      if (remaining == 1) {
        ++load.n_decode;
        load.decode_context += uint64_t{base} + 1;
      } else {
        load.n_prefill += n;
        load.prefill_context += uint64_t{n} * base + uint64_t{n} * (uint64_t{n} + 1) / 2;
      }
    }
    return load;
  }

  [[nodiscard]] uint64_t step_us(const StepLoad& load) const {
    return std::max<uint64_t>(1, static_cast<uint64_t>(std::llround(cost_.step_us(load))));
  }

  void note(uint64_t us) {
    const auto waiting = static_cast<double>(live_.n_waiting() + (arrived_ - next_));
    outcome_.timeline.add(
        now_us_, now_us_ + us,
        {static_cast<double>(live_.n_running()), waiting,
         static_cast<double>(live_.n_used_blocks()), static_cast<double>(n_step_tokens_)});
    outcome_.most_used_blocks = std::max(outcome_.most_used_blocks, live_.n_used_blocks());
    now_us_ += us;
    outcome_.busy_us += us;
    if (n_step_tokens_ == 0) return;
    ++outcome_.n_steps;
    outcome_.n_tokens += n_step_tokens_;
    last_step_us_ = us;
    last_step_tokens_ = static_cast<uint32_t>(n_step_tokens_);
    budget_.observe(last_step_tokens_, us);
  }

  void commit() {
    const auto& columns = live_.columns();
    uint64_t n_new = 0;
    for (size_t i = 0; i < live_.size(); ++i) {
      if (columns.run[i] == 0) continue;
      const uint32_t n_first = live_.commit(i, columns.run[i]);
      outcome_.fairness.serve(columns.tenant[i], n_first);
      n_new += n_first;
      if (live_.has_new_token(i)) note_token(i);
    }
    live_.remove_finished();
    outcome_.n_recomputed += n_step_tokens_ - n_new;
    n_empty_ = n_step_tokens_ > 0 ? 0 : n_empty_ + 1;
    n_without_progress_ = n_new > 0 ? 0 : n_without_progress_ + 1;
  }

  void note_token(size_t i) {
    RequestOutcome& request = outcome_.requests[live_.request(i)];
    uint64_t& last_us = live_.last_token_us(i);
    if (live_.columns().n_tokens[i] == live_.columns().n_prompt[i]) {
      request.first_token_us = now_us_;
    } else {
      outcome_.inter_token_us.add(now_us_ - last_us);
    }
    last_us = now_us_;
    if (live_.append_token(i)) return;
    request.finish_us = now_us_;
    ++n_done_;
  }

  [[nodiscard]] Status check_progress() const {
    if (n_empty_ < kMostEmptySteps && n_without_progress_ < patience_) return {};
    return invalid_argument(fmt::format(
        "the scheduler makes no progress: after step {}, at {:.3f} s, nothing new was computed in "
        "{} decisions, with {} requests running and {} waiting",
        outcome_.n_steps, static_cast<double>(now_us_) * 1e-6, n_without_progress_,
        live_.n_running(), live_.n_waiting()));
  }

  const Trace& trace_;
  const Limits limits_;
  const CostModel& cost_;
  const plugin::SchedulerHandle& scheduler_;
  LiveSequences live_;
  engine::StepBudget budget_;
  // Steps in which nothing is computed for the first time: enough to compute all of the KV memory
  // again, twice, in steps of one token.
  const uint64_t patience_;
  Outcome outcome_;
  uint64_t now_us_ = 0;
  uint64_t last_step_us_ = 0;
  uint32_t last_step_tokens_ = 0;
  uint64_t n_step_tokens_ = 0;
  size_t next_ = 0;     // of the trace's requests to admit
  size_t arrived_ = 0;  // requests that have arrived by now
  uint64_t n_done_ = 0;
  uint32_t n_queued_ = 0;  // admitted and never run
  uint64_t n_empty_ = 0;
  uint64_t n_without_progress_ = 0;
};

}  // namespace

Result<Outcome> simulate(const Trace& trace, const Limits& limits, const CostModel& cost,
                         const plugin::SchedulerHandle& scheduler, const bp_progress* progress) {
  return Simulator(trace, limits, cost, scheduler).run(progress);
}

}  // namespace bp::simulate
