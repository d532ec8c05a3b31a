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
    : batches{{{engine_parts.n_vocab, engine_parts.logits_output, engine_parts.max_candidates},
               {engine_parts.n_vocab, engine_parts.logits_output, engine_parts.max_candidates}}},
      parts(std::move(engine_parts)),
      kv(block_options(parts)),
      swap(parts.transfer, parts.limits.swap_bytes),
      mailbox(parts.limits.max_queue),
      budget(parts.limits.max_step_us, parts.limits.max_step_tokens) {
  context = static_cast<uint32_t>(
      std::min<uint64_t>(parts.limits.context, uint64_t{kv.n_usable()} * kv.block_size()));
  stats.kv_blocks.set(kv.n_usable());
  stats.kv_block_size.set(kv.block_size());
}

namespace {

FinishContext finish_context(StepState& s) {
  return {s.mailbox, s.kv, s.events, s.stats, s.ended};
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

// Positions are taken as computed from now on: steps follow each other on the device.
void advance(const Plan& plan, kv::BlockManager& kv) {
  for (const Planned& planned : plan.sequences) {
    planned.sequence->n_computed = planned.end();
    kv.advance_state(planned.sequence->table);
  }
}

// Plans a step and gives it to the backend; nothing where no sequence computes.
void begin(StepState& s, std::optional<BegunStep>& begun) {
  // The scheduler says how many tokens each sequence computes; blocks are reserved for them.
  BegunStep step;
  step.plan = schedule(s.sequences, step_limits(s), s.columns,
                       {s.parts.scheduler, s.kv, s.swap, s.mailbox, s.stats, s.context});
  if (step.plan.sequences.empty()) return;
  step.begin_us = now_us();
  step.copy_us = s.swap.copy_us();

  // The plan becomes flat arrays.
  Batch& batch = s.batches[s.step++ % s.batches.size()];
  build_batch(step.plan, s.kv, batch);

  // The backend computes.
  step.execution = submit(s.parts.executable, batch, s.in_flight);
  begun = std::move(step);
  advance(begun->plan, s.kv);
}

// Whether all that the step draws is chosen by the backend, and nothing else hangs on its rows.
bool can_be_followed(const BegunStep& step) {
  const Batch& batch = *step.execution.batch;
  for (uint32_t r = 0; r < batch.rows.size(); ++r) {
    if (!batch.stays_on_device(r) || batch.row_requests[r].choice == BP_CHOOSE_NONE) return false;
  }
  return step.execution.status.ok() &&
         std::ranges::none_of(step.plan.sequences, [](const Planned& planned) {
           const RequestState& request = *planned.sequence->request;
           return request.request.prompt_only || request.n_forks > 0;
         });
}

// Until they are known, tokens are named by their rows.
void expect_tokens(const BegunStep& step) {
  const Batch& batch = *step.execution.batch;
  for (size_t i = 0; i < step.plan.sequences.size(); ++i) {
    if (batch.first_row[i] == batch.first_row[i + 1]) continue;
    Sequence& s = *step.plan.sequences[i].sequence;
    s.tokens.push_back(-1 - static_cast<int32_t>(batch.first_row[i]));
    ++s.n_expected;
  }
}

void note_step(StepState& s, const BegunStep& step) {
  const uint64_t now = now_us();
  // Copies of preempted sequences say nothing about what tokens cost.
  s.last_step_us = now - step.begin_us - (s.swap.copy_us() - step.copy_us);
  s.last_step_tokens = step.plan.n_tokens;
  if (s.ahead) {
    s.ahead->begin_us = now;
    s.ahead->copy_us = s.swap.copy_us();
  }
  s.budget.observe(s.last_step_tokens, s.last_step_us);
  s.stats.steps.add();
  s.stats.step_tokens.observe(s.last_step_tokens);
  s.stats.step_s.observe(static_cast<double>(s.last_step_us) * 1e-6);
}

// Waits for the step, and makes of it what it brought.
Status finish_running(StepState& s) {
  const BegunStep step = *std::exchange(s.running, std::nullopt);
  const Status executed = collect(s.parts.executable, step.execution, s.in_flight);

  // Rows of logits become tokens.
  std::vector<Outcome> outcomes;
  Batch& batch = *step.execution.batch;
  if (executed.ok()) {
    outcomes = sample(step.plan, batch, s.parts.end_of_generation, {s.parts.team, s.sample_rooms});
  }

  // Tokens are appended, answers end, full blocks become findable.
  commit(step.plan, executed, outcomes, s.sequences,
         {finish_context(s), s.parts.end_of_generation, s.context, now_us()});
  note_step(s, step);
  return executed;
}

// The step in flight may refer to those that ended since it was begun, and to no others.
void forget_ended(StepState& s) {
  s.ended_before = std::exchange(s.ended, {});
  if (!s.running) s.ended_before.clear();
}

}  // namespace

StepResult run_step(StepState& s) {
  // 1. New requests come in, cancelled ones end.
  if (!admit(s.mailbox, s.sequences, !s.running, finish_context(s))) return StepResult::kStopped;

  // 2. to 4. A step is scheduled, becomes a batch and goes to the backend, and while that computes,
  // the next one, if it needs no more than what the backend knows by then.
  if (!s.running) begin(s, s.running);
  if (s.running && s.parts.runs_ahead && can_be_followed(*s.running)) {
    expect_tokens(*s.running);
    begin(s, s.ahead);
  }

  // 5. and 6. What was computed becomes tokens, and these part of their sequences.
  const Status executed = s.running ? finish_running(s) : Status();
  s.running = std::exchange(s.ahead, std::nullopt);
  forget_ended(s);
  set_gauges(s);

  // 7. The sinks are told.
  emit(s.events, s.mailbox);
  return executed.code() == Code::kDeviceLost ? StepResult::kDeviceLost : StepResult::kGoOn;
}

void end_all(StepState& s, FinishReason reason, const std::string& error) {
  for (auto* step : {&s.running, &s.ahead}) {
    const auto begun = std::exchange(*step, std::nullopt);
    if (begun) static_cast<void>(collect(s.parts.executable, begun->execution, s.in_flight));
  }
  s.in_flight.clear();
  for (auto& arrival : s.mailbox.receive(false).arrivals) s.sequences.push_back(std::move(arrival));
  for (const auto& sequence : s.sequences) {
    if (sequence->state == Sequence::State::kFinished) continue;
    finish(*sequence, {reason, {}, error, {}}, finish_context(s));
  }
  s.sequences.clear();
  s.ended.clear();
  s.ended_before.clear();
  s.kv = kv::BlockManager(block_options(s.parts));
  set_gauges(s);
  emit(s.events, s.mailbox);
}

}  // namespace bp::engine
