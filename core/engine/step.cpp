#include "core/engine/step.hpp"

#include <algorithm>
#include <utility>

#include "core/engine/admit.hpp"
#include "core/engine/clock.hpp"
#include "core/engine/commit.hpp"
#include "core/engine/emit.hpp"
#include "core/engine/execute.hpp"

namespace bp::engine {

namespace {

kv::BlockManager::Options block_options(const EngineParts& parts) {
  return {parts.n_blocks, parts.block_size, parts.n_kv_groups, parts.limits.prefix_cache,
          parts.n_state_entries};
}

}  // namespace

StepState::StepState(EngineParts engine_parts)
    : parts(std::move(engine_parts)),
      kv(block_options(parts)),
      swap(parts.transfer, parts.limits.swap_bytes),
      mailbox(parts.limits.max_queue),
      budget(parts.limits.max_step_us, parts.limits.max_step_tokens),
      batch(parts.n_vocab, parts.logits_output, parts.max_candidates) {
  context = static_cast<uint32_t>(
      std::min<uint64_t>(parts.limits.context, uint64_t{kv.n_usable()} * kv.block_size()));
  stats.kv_blocks.set(kv.n_usable());
  stats.kv_block_size.set(kv.block_size());
}

namespace {

FinishContext finish_context(StepState& s) {
  return {s.mailbox, s.kv, s.events, s.stats};
}

StepLimits step_limits(const StepState& s) {
  StepLimits limits;
  limits.step = s.step;
  limits.now_us = now_us();
  limits.last_step_us = s.last_step_us;
  limits.last_step_tokens = s.last_step_tokens;
  const auto n_decoding = std::ranges::count_if(s.sequences, [](const auto& sequence) {
    return sequence->state == Sequence::State::kRunning &&
           sequence->n_computed + 1 == sequence->n_tokens();
  });
  limits.max_step_tokens = s.budget.tokens(static_cast<uint32_t>(n_decoding));
  limits.max_sequences = s.parts.limits.max_sequences;
  limits.max_output_rows = s.parts.limits.max_output_rows;
  return limits;
}

void set_gauges(StepState& s) {
  uint64_t n_running = 0, n_preempted = 0;
  for (const auto& sequence : s.sequences) {
    const bool running = sequence->state == Sequence::State::kRunning;
    n_running += running ? 1 : 0;
    n_preempted += !running && sequence->request->first_run_us != 0 ? 1 : 0;
  }
  s.stats.requests_running.set(n_running);
  s.stats.requests_waiting.set(n_preempted + s.mailbox.n_waiting());
  s.stats.kv_blocks_used.set(s.kv.n_used());
  s.stats.kv_blocks_cached.set(s.kv.n_cached());
  s.stats.swap_used_bytes.set(s.swap.used_bytes());
}

void note_step(StepState& s, const Plan& plan, uint64_t us) {
  if (plan.sequences.empty()) return;
  ++s.step;
  s.last_step_us = us;
  s.last_step_tokens = plan.n_tokens;
  s.budget.observe(plan.n_tokens, us);
  s.stats.steps.add();
  s.stats.step_tokens.observe(plan.n_tokens);
  s.stats.step_s.observe(static_cast<double>(us) * 1e-6);
}

}  // namespace

StepResult run_step(StepState& s) {
  const FinishContext finishing = finish_context(s);
  // 1. New requests come in, cancelled ones end.
  if (!admit(s.mailbox, s.sequences, finishing)) return StepResult::kStopped;

  // 2. The scheduler says how many tokens each sequence computes; blocks are reserved for them.
  const StepLimits limits = step_limits(s);
  const Plan plan = schedule(s.sequences, limits, s.columns,
                             {s.parts.scheduler, s.kv, s.swap, s.mailbox, s.stats});
  // Copies of preempted sequences lie behind: they say nothing about what tokens cost.
  const uint64_t begin_us = now_us();

  // 3. The plan becomes flat arrays.
  build_batch(plan, s.kv, s.batch);

  // 4. The backend computes.
  const Status executed = execute(s.parts.executable, s.batch, s.in_flight);

  // 5. Rows of logits become tokens.
  std::vector<Outcome> outcomes;
  if (executed.ok()) outcomes = sample(plan, s.batch, s.parts.end_of_generation, s.sample_room);

  // 6. Tokens are appended, answers end, full blocks become findable.
  commit(plan, executed, outcomes, s.sequences,
         {finishing, s.parts.end_of_generation, s.context, now_us()});
  note_step(s, plan, now_us() - begin_us);
  set_gauges(s);

  // 7. The sinks are told.
  emit(s.events, s.mailbox);
  return executed.code() == Code::kDeviceLost ? StepResult::kDeviceLost : StepResult::kGoOn;
}

void end_all(StepState& s, FinishReason reason, const std::string& error) {
  for (auto& arrival : s.mailbox.receive(false).arrivals) s.sequences.push_back(std::move(arrival));
  for (const auto& sequence : s.sequences) {
    if (sequence->state == Sequence::State::kFinished) continue;
    finish(*sequence, {reason, {}, error, {}}, finish_context(s));
  }
  s.sequences.clear();
  s.kv = kv::BlockManager(block_options(s.parts));
  set_gauges(s);
  emit(s.events, s.mailbox);
}

}  // namespace bp::engine
