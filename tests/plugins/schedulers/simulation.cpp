#include "simulation.hpp"

#include <algorithm>

#include "backplane/plugin.hpp"
#include "core/engine/decision.hpp"

namespace bp::testing {

namespace {

struct Simulated {
  uint32_t request;
  bool running = false;
  uint32_t n_tokens;
  uint32_t n_computed = 0;
  uint32_t n_held = 0;
};

struct Columns {
  std::vector<uint64_t> id, last_run, zeros;
  std::vector<uint32_t> state, tenant, n_prompt, n_tokens, n_computed, n_cached, n_held;
  std::vector<int32_t> priority;
  std::vector<uint32_t> run, draft, preempt;
};

class Simulator {
 public:
  explicit Simulator(const Trace& trace) : trace_(trace), free_(trace.n_blocks - 1) {
    result_.finished_at.assign(trace.requests.size(), UINT32_MAX);
  }

  Simulation run(const plugin::SchedulerHandle& scheduler, uint32_t max_steps) {
    for (step_ = 0; step_ < max_steps && n_finished_ < trace_.requests.size(); ++step_) {
      arrive();
      if (sequences_.empty()) {
        result_.steps.emplace_back();
        continue;
      }
      decide(scheduler);
      if (!result_.invalid.empty()) break;
      apply();
    }
    result_.all_finished = n_finished_ == trace_.requests.size();
    return std::move(result_);
  }

 private:
  void arrive() {
    for (; next_ < trace_.requests.size() && trace_.requests[next_].at <= step_; ++next_) {
      sequences_.push_back({next_, false, trace_.requests[next_].prompt});
    }
  }

  void decide(const plugin::SchedulerHandle& scheduler) {
    const size_t n = sequences_.size();
    c_ = {};
    c_.zeros.assign(n, 0);
    c_.last_run.assign(n, 0);
    c_.tenant.assign(n, 0);
    c_.n_cached.assign(n, 0);
    for (const Simulated& s : sequences_) {
      const SimulatedRequest& request = trace_.requests[s.request];
      c_.id.push_back(s.request);
      c_.state.push_back(s.running ? BP_SEQ_RUNNING : BP_SEQ_WAITING);
      c_.priority.push_back(request.priority);
      c_.n_prompt.push_back(request.prompt);
      c_.n_tokens.push_back(s.n_tokens);
      c_.n_computed.push_back(s.n_computed);
      c_.n_held.push_back(s.n_held);
    }
    for (auto* column : {&c_.run, &c_.draft, &c_.preempt}) column->assign(n, 0);
    auto decision = make_growable<bp_decision>();
    decision.n_seqs = static_cast<uint32_t>(n);
    decision.n_tokens = c_.run.data();
    decision.n_draft = c_.draft.data();
    decision.preempt = c_.preempt.data();
    const bp_snapshot snapshot = make_snapshot();
    Status status = scheduler.schedule(snapshot, decision);
    if (status.ok()) status = engine::check_decision(snapshot, decision);
    if (!status.ok()) {
      result_.invalid = "step " + std::to_string(step_) + ": " + status.message();
    }
  }

  bp_snapshot make_snapshot() {
    auto s = make_growable<bp_snapshot>();
    s.n_seqs = static_cast<uint32_t>(sequences_.size());
    s.step = step_;
    s.max_step_tokens = trace_.max_step_tokens;
    s.max_sequences = trace_.max_sequences;
    s.block_size = trace_.block_size;
    s.free_blocks = free_;
    s.n_blocks = trace_.n_blocks;
    s.id = c_.id.data();
    s.state = c_.state.data();
    s.priority = c_.priority.data();
    s.tenant = c_.tenant.data();
    s.arrival_us = c_.zeros.data();
    s.deadline_us = c_.zeros.data();
    s.n_prompt = c_.n_prompt.data();
    s.n_tokens = c_.n_tokens.data();
    s.n_computed = c_.n_computed.data();
    s.n_cached = c_.n_cached.data();
    s.n_held = c_.n_held.data();
    s.last_run_step = c_.last_run.data();
    return s;
  }

  void free_blocks(Simulated& s) {
    free_ += s.n_held;
    s.n_held = s.n_computed = 0;
    s.running = false;
  }

  void apply() {
    std::string line;
    for (size_t i = 0; i < sequences_.size(); ++i) {
      if (c_.preempt[i] == BP_KEEP) continue;
      free_blocks(sequences_[i]);
      line += " !" + std::to_string(sequences_[i].request);
    }
    std::string runs;
    for (size_t i = 0; i < sequences_.size(); ++i) {
      if (c_.run[i] == 0) continue;
      runs += " " + std::to_string(sequences_[i].request) + ":" + std::to_string(c_.run[i]);
      compute(sequences_[i], c_.run[i]);
    }
    std::erase_if(sequences_, [](const Simulated& s) { return s.request == UINT32_MAX; });
    line = runs + line;
    result_.steps.push_back(line.empty() ? line : line.substr(1));
  }

  void compute(Simulated& s, uint32_t n) {
    s.running = true;
    s.n_computed += n;
    const uint32_t needed = (s.n_computed + trace_.block_size - 1) / trace_.block_size;
    if (needed > s.n_held) {
      free_ -= needed - s.n_held;
      s.n_held = needed;
    }
    if (s.n_computed < s.n_tokens) return;
    const SimulatedRequest& request = trace_.requests[s.request];
    if (++s.n_tokens < request.prompt + request.generate) return;
    result_.finished_at[s.request] = step_;
    ++n_finished_;
    free_blocks(s);
    s.request = UINT32_MAX;
  }

  const Trace& trace_;
  uint32_t free_;
  uint32_t step_ = 0;
  uint32_t next_ = 0;
  size_t n_finished_ = 0;
  std::vector<Simulated> sequences_;
  Columns c_;
  Simulation result_;
};

}  // namespace

Simulation simulate(const plugin::SchedulerHandle& scheduler, const Trace& trace,
                    uint32_t max_steps) {
  return Simulator(trace).run(scheduler, max_steps);
}

}  // namespace bp::testing
