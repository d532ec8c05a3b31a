#include "core/engine/snapshot.hpp"

#include <algorithm>
#include <functional>

#include "backplane/plugin.hpp"

namespace bp::engine {

namespace {

// Answers how many of the blocks found the sequence can have without one that is free.
uint32_t refresh_prefix(Sequence& s, kv::BlockManager& kv) {
  s.n_cached = 0;
  // Rows of cached tokens are not computed, so there are no logprobs of them.
  if (s.prompt_logprobs_missing()) return 0;
  s.n_cached = kv.find_prefix(s.match, s.tokens, s.request->salt);
  return kv.n_in_use(s.match);
}

}  // namespace

bp_snapshot ScheduleColumns::take(SequenceList& sequences, kv::BlockManager& kv,
                                  const StepLimits& limits) {
  const size_t n = sequences.size();
  for (auto* column : {&id, &arrival_us, &deadline_us, &last_run_step}) column->assign(n, 0);
  for (auto* column : {&state, &tenant, &n_prompt, &n_tokens, &n_computed, &n_cached, &n_held}) {
    column->assign(n, 0);
  }
  priority.assign(n, 0);
  uint32_t n_running = 0;
  for (const auto& s : sequences) n_running += s->state == Sequence::State::kRunning ? 1 : 0;
  for (size_t i = 0; i < n; ++i) {
    Sequence& s = *sequences[i];
    const bool waiting = s.state == Sequence::State::kWaiting;
    if (!waiting) {
      n_held[i] = kv.n_held(s.table, s.n_computed);
    } else if (n_running < limits.max_sequences) {
      n_held[i] = refresh_prefix(s, kv);
    }
    id[i] = s.id;
    state[i] = waiting ? BP_SEQ_WAITING : BP_SEQ_RUNNING;
    priority[i] = s.request->request.priority;
    tenant[i] = s.request->tenant_hash;
    arrival_us[i] = s.request->arrival_us;
    n_prompt[i] = s.n_prompt;
    n_tokens[i] = s.n_tokens();
    n_computed[i] = s.n_computed;
    n_cached[i] = waiting ? std::max(s.n_cached, s.kept.n_tokens()) : 0;
    last_run_step[i] = s.last_run_step;
  }
  return view(kv, limits);
}

bp_snapshot ScheduleColumns::view(const kv::BlockManager& kv, const StepLimits& limits) const {
  auto snapshot = make_growable<bp_snapshot>();
  snapshot.n_seqs = static_cast<uint32_t>(id.size());
  snapshot.step = limits.step;
  snapshot.now_us = limits.now_us;
  snapshot.last_step_us = limits.last_step_us;
  snapshot.last_step_tokens = limits.last_step_tokens;
  snapshot.max_step_tokens = limits.max_step_tokens;
  snapshot.max_sequences = limits.max_sequences;
  snapshot.block_size = kv.block_size();
  snapshot.free_blocks = kv.n_available();
  snapshot.n_blocks = kv.n_blocks();
  snapshot.id = id.data();
  snapshot.state = state.data();
  snapshot.priority = priority.data();
  snapshot.tenant = tenant.data();
  snapshot.arrival_us = arrival_us.data();
  snapshot.deadline_us = deadline_us.data();
  snapshot.n_prompt = n_prompt.data();
  snapshot.n_tokens = n_tokens.data();
  snapshot.n_computed = n_computed.data();
  snapshot.n_cached = n_cached.data();
  snapshot.n_held = n_held.data();
  snapshot.last_run_step = last_run_step.data();
  return snapshot;
}

bp_decision ScheduleColumns::empty_decision(uint32_t n_seqs) {
  for (auto* column : {&run, &draft, &preempt}) column->assign(n_seqs, 0);
  auto decision = make_growable<bp_decision>();
  decision.n_seqs = n_seqs;
  decision.n_tokens = run.data();
  decision.n_draft = draft.data();
  decision.preempt = preempt.data();
  return decision;
}

}  // namespace bp::engine
