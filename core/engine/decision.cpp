#include "core/engine/decision.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace bp::engine {

namespace {

struct View {
  const bp_snapshot& s;

  [[nodiscard]] bool running(uint32_t i) const { return s.state[i] == BP_SEQ_RUNNING; }
  // Tokens of i that are in blocks before the step.
  [[nodiscard]] uint32_t base(uint32_t i) const {
    return running(i) ? s.n_computed[i] : s.n_cached[i];
  }
  [[nodiscard]] uint32_t remaining(uint32_t i) const { return s.n_tokens[i] - base(i); }
  // Blocks that i needs beyond those it holds to compute n tokens.
  [[nodiscard]] uint32_t missing_blocks(uint32_t i, uint32_t n) const {
    const uint64_t end = uint64_t{base(i)} + n;
    const auto needed = static_cast<uint32_t>((end + s.block_size - 1) / s.block_size);
    return needed > s.n_held[i] ? needed - s.n_held[i] : 0;
  }
  // Tokens of i that fit its blocks and `free` more.
  [[nodiscard]] uint32_t fitting(uint32_t i, uint32_t n, uint32_t free) const {
    const uint64_t room = (uint64_t{s.n_held[i]} + free) * s.block_size;
    return static_cast<uint32_t>(std::min<uint64_t>(n, room > base(i) ? room - base(i) : 0));
  }
};

Status check_sequence(const View& v, const bp_decision& d, uint32_t i) {
  const auto wrong = [&](const char* what) {
    return invalid_argument(fmt::format("sequence {}: {}", v.s.id[i], what));
  };
  if (d.n_draft[i] != 0) return wrong("draft tokens, which this model has not");
  if (d.preempt[i] > BP_PREEMPT_RECOMPUTE) return wrong("an unknown kind of preemption");
  if (d.preempt[i] != BP_KEEP && !v.running(i)) return wrong("preempted although it waits");
  if (d.preempt[i] != BP_KEEP && d.n_tokens[i] != 0) return wrong("preempted and run");
  if (d.n_tokens[i] > v.remaining(i)) return wrong("more tokens than it has");
  return {};
}

}  // namespace

Status check_decision(const bp_snapshot& snapshot, const bp_decision& decision) {
  const View v{snapshot};
  uint64_t n_tokens = 0, n_missing = 0, n_free = snapshot.free_blocks;
  uint32_t n_run = 0, n_preempted = 0;
  for (uint32_t i = 0; i < snapshot.n_seqs; ++i) {
    BP_TRY(check_sequence(v, decision, i));
    n_tokens += decision.n_tokens[i];
    n_run += decision.n_tokens[i] > 0 ? 1 : 0;
    n_preempted += decision.preempt[i] != BP_KEEP ? 1 : 0;
    if (decision.preempt[i] != BP_KEEP) n_free += snapshot.n_held[i];
    if (decision.n_tokens[i] > 0) n_missing += v.missing_blocks(i, decision.n_tokens[i]);
  }
  if (n_tokens > snapshot.max_step_tokens) {
    return invalid_argument(fmt::format("{} tokens, of {}", n_tokens, snapshot.max_step_tokens));
  }
  if (n_run > snapshot.max_sequences) {
    return invalid_argument(fmt::format("{} sequences, of {}", n_run, snapshot.max_sequences));
  }
  if (n_missing > n_free) {
    return invalid_argument(fmt::format("{} new blocks, of {} free", n_missing, n_free));
  }
  if (n_run == 0 && n_preempted == 0) return invalid_argument("nothing runs");
  return {};
}

void decide_first_come_first_served(const bp_snapshot& snapshot, bp_decision& decision) {
  const View v{snapshot};
  uint32_t n_free = snapshot.free_blocks, n_tokens = snapshot.max_step_tokens;
  uint32_t n_seqs = snapshot.max_sequences;
  const auto run = [&](uint32_t i, uint32_t n) {
    if (n == 0) return;
    n_free -= v.missing_blocks(i, n);
    n_tokens -= n;
    --n_seqs;
    decision.n_tokens[i] = n;
  };
  uint32_t end = snapshot.n_seqs;  // those from here on do not run: preempted or waiting
  bool preempted = false;
  for (uint32_t i = 0; i < end && n_seqs > 0; ++i) {
    if (!v.running(i)) continue;
    const uint32_t wanted = std::min(v.remaining(i), n_tokens);
    while (wanted > 0 && v.fitting(i, wanted, n_free) == 0 && end > i + 1) {
      if (!v.running(--end)) continue;
      decision.preempt[end] = BP_PREEMPT_RECOMPUTE;
      n_free += snapshot.n_held[end];
      preempted = true;
    }
    run(i, v.fitting(i, wanted, n_free));
  }
  for (uint32_t i = 0; i < snapshot.n_seqs && !preempted && n_seqs > 0; ++i) {
    if (v.running(i)) continue;
    const uint32_t wanted = std::min(v.remaining(i), n_tokens);
    if (wanted == 0 || v.fitting(i, wanted, n_free) < wanted) break;
    run(i, wanted);
  }
}

}  // namespace bp::engine
