#include "core/engine/schedule.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include <spdlog/spdlog.h>

#include "core/engine/decision.hpp"

namespace bp::engine {

namespace {

void set_waiting(Sequence& s, const ScheduleContext& c) {
  c.kv.release(s.table);
  s.n_computed = 0;
  s.state = Sequence::State::kWaiting;
}

void preempt(Sequence& s, const ScheduleContext& c) {
  c.swap.keep(s, c.kv, c.stats);
  set_waiting(s, c);
  c.stats.preemptions.add();
}

void note_first_run(Sequence& s, uint64_t now_us, const ScheduleContext& c) {
  RequestState& request = *s.request;
  if (request.first_run_us != 0) return;
  request.first_run_us = now_us;
  request.n_cached = s.n_computed;
  c.mailbox.note_left_queue();
  c.stats.queue_time_s.observe(static_cast<double>(now_us - request.arrival_us) * 1e-6);
  c.stats.prompt_tokens.observe(s.n_prompt);
  c.stats.prompt_tokens_total.add(s.n_prompt);
  c.stats.prefix_cache_queries.add(s.n_prompt);
  c.stats.prefix_cache_hits.add(s.n_computed);
}

void start(Sequence& s, uint64_t now_us, const ScheduleContext& c) {
  if (!s.prompt_logprobs_missing()) {
    s.n_computed = c.kv.take_prefix(s.table, s.tokens, s.request->salt);
  }
  s.match = {};
  s.state = Sequence::State::kRunning;
  note_first_run(s, now_us, c);
}

// Rows of logits that the next n tokens yield; n becomes smaller where there are more than `room`.
uint32_t fit_rows(const Sequence& s, uint32_t& n, uint32_t room) {
  uint32_t n_rows = 0;
  for (uint32_t i = s.prompt_logprobs_missing() ? 0 : n - 1; i < n; ++i) {
    if (!s.wants_row(s.n_computed + i)) continue;
    if (n_rows == room) n = i;
    if (n_rows < room) ++n_rows;
  }
  return n_rows;
}

// Whether all others that hold the sequence's state go on to entries of their own in this step.
bool soon_owns_state(const Sequence& s, const ScheduleContext& c, const Plan& plan) {
  const auto leaves = [&](const Planned& planned) {
    const kv::BlockTable& other = planned.sequence->table;
    return other.state == s.table.state && other.next_state != other.state;
  };
  const auto n_leaving = std::ranges::count_if(plan.sequences, leaves);
  return n_leaving + 1 == static_cast<int64_t>(c.kv.n_state_holders(s.table));
}

// Whether the token that is expected will be the last, whichever it is.
bool expects_its_last(const Sequence& s, const ScheduleContext& c) {
  if (s.n_expected == 0) return false;
  const uint32_t max_tokens = s.request->request.max_tokens;
  return s.n_tokens() >= c.context || (max_tokens > 0 && s.n_tokens() - s.n_prompt >= max_tokens);
}

void add(Sequence& s, uint32_t n_tokens, uint32_t row_room, const ScheduleContext& c, Plan& plan) {
  if (expects_its_last(s, c)) return;
  uint32_t n = std::min(n_tokens, s.n_tokens() - s.n_computed);
  const uint32_t n_rows = fit_rows(s, n, row_room);
  if (n == 0) return;
  if (!c.kv.reserve(s.table, s.n_computed, s.n_computed + n, plan.block_ops)) {
    // Where preempted sequences shared blocks, fewer came free than the scheduler could know. A
    // sequence that waits for a state entry lets go of the one it shares with others, unless they
    // leave it.
    if (c.kv.lacks_state(s.table) && !soon_owns_state(s, c, plan)) preempt(s, c);
    return;
  }
  plan.sequences.push_back({&s, s.n_computed, n});
  plan.n_tokens += n;
  plan.n_rows += n_rows;
}

// Told at first, and more and more rarely where it goes on.
void note_invalid(const Status& status, Stats& stats) {
  stats.invalid_decisions.add();
  if (!std::has_single_bit(stats.invalid_decisions.get())) return;
  spdlog::warn("the scheduler's decision is not used (number {}): {}; first come, first served",
               stats.invalid_decisions.get(), status.message());
}

}  // namespace

Status decide(const plugin::SchedulerHandle& scheduler, const bp_snapshot& snapshot,
              ScheduleColumns& columns, bp_decision& decision) {
  Status status = scheduler.schedule(snapshot, decision);
  if (status.ok()) status = check_decision(snapshot, decision);
  if (status.ok()) return {};
  decision = columns.empty_decision(snapshot.n_seqs);
  decide_first_come_first_served(snapshot, decision);
  return status;
}

Plan schedule(SequenceList& sequences, const StepLimits& limits, ScheduleColumns& columns,
              const ScheduleContext& c) {
  Plan plan;
  if (sequences.empty()) return plan;
  const bp_snapshot snapshot = columns.take(sequences, c.kv, limits);
  bp_decision decision = columns.empty_decision(snapshot.n_seqs);
  const Status decided = decide(c.scheduler, snapshot, columns, decision);
  if (!decided.ok()) note_invalid(decided, c.stats);
  for (size_t i = 0; i < sequences.size(); ++i) {
    if (decision.preempt[i] != BP_KEEP) preempt(*sequences[i], c);
  }
  // Found blocks get their users before anything is allocated, which might take them.
  for (size_t i = 0; i < sequences.size(); ++i) {
    const bool starts = decision.n_tokens[i] > 0 && snapshot.state[i] == BP_SEQ_WAITING;
    if (starts) start(*sequences[i], limits.now_us, c);
  }
  // What was kept comes back before there are block ops, whose sources it must not overwrite.
  for (const auto& s : sequences) {
    const bool starts = s->state == Sequence::State::kRunning && !s->kept.empty();
    if (starts && !c.swap.restore(*s, c.kv, c.stats)) set_waiting(*s, c);
  }
  // Those that come later keep a row each.
  auto n_later =
      static_cast<uint32_t>(std::ranges::count_if(columns.run, [](auto n) { return n > 0; }));
  for (size_t i = 0; i < sequences.size(); ++i) {
    if (decision.n_tokens[i] == 0) continue;
    if (sequences[i]->state != Sequence::State::kRunning) {
      --n_later;
      continue;
    }
    const uint32_t row_room = limits.max_output_rows - plan.n_rows - --n_later;
    add(*sequences[i], decision.n_tokens[i], row_room, c, plan);
  }
  for (const Planned& planned : plan.sequences) planned.sequence->last_run_step = limits.step;
  return plan;
}

}  // namespace bp::engine
