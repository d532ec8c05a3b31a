#include "backends/cpu/step.hpp"

#include <algorithm>
#include <cstring>

#include "backends/cpu/threads/team.hpp"
#include "backplane/plugin.hpp"

namespace bp::cpu {

Step::Step(CpuExecutable& executable, const bp_batch& batch)
    : executable_(executable), batch_(batch), sequence_of_(batch.n_tokens) {
  const Plan& plan = executable.plan_;
  for (uint32_t s = 0; s < batch.n_seqs; ++s) {
    for (uint32_t t = batch.query_start[s]; t < batch.query_start[s + 1]; ++t) sequence_of_[t] = s;
    batch.seq_status[s] = BP_SEQ_OK;
  }
  output_rows_.resize(plan.outputs.size());
  for (uint32_t i = 0; i < batch.n_outputs; ++i) {
    wanted_.push_back(copy_growable(batch.outputs[i]));
    output_rows_[wanted_[i].output] = {wanted_[i].rows, wanted_[i].n_rows};
    peaks_.emplace_back(wanted_[i].greatest == nullptr ? 0 : wanted_[i].n_rows,
                        executable.n_threads_);
  }
  is_direct_.resize(wanted_.size());
  for (const Buffer& buffer : plan.buffers) {
    auto* data = reinterpret_cast<float*>(executable.buffers() + buffer.offset);
    values_.push_back({data, buffer.stride()});
  }
  running_.assign(batch.n_seqs, 1);
  first_output_stage_ = static_cast<uint32_t>(plan.stages.size());
  for (const PlanOutput& output : plan.outputs) {
    if (output.is_direct) first_output_stage_ = std::min(first_output_stage_, output.writer);
  }
  context_.batch = &batch_;
  context_.kernels = &executable.kernels_;
  context_.kv = &executable.kv_;
  context_.states = &executable.states_;
  context_.values = values_;
  context_.sequence_of = sequence_of_;
  context_.outputs = output_rows_;
  context_.shared = executable.shared();
  context_.running = running_;
  context_.n_workers = executable.n_threads_;
  context_.weights_are_streamed = executable.stream_.streamed_bytes() > 0;
}

void Step::run() {
  for (uint32_t i = 0; i < batch_.n_block_ops; ++i) {
    const bp_block_op& op = batch_.block_ops[i];
    if (op.space == BP_BLOCK_OF_STATE) {
      executable_.states_.apply(op);
    } else {
      executable_.kv_.apply(op);
    }
  }
  if (batch_.n_tokens == 0) return;
  fail_bad_tokens();
  if (open_from(0) == kEnd) return;
  executable_.team_->run(executable_.n_threads_,
                         [this](uint32_t worker, uint32_t, bp_team* team) { work(worker, team); });
  copy_outputs();
  tell_greatest();
}

void Step::fail_bad_tokens() {
  uint32_t smallest = ~0u, n_positions = ~0u;
  for (const uint32_t n : executable_.plan_.vocabularies) smallest = std::min(smallest, n);
  for (const uint32_t n : executable_.plan_.positions) n_positions = std::min(n_positions, n);
  for (uint32_t t = 0; t < batch_.n_tokens; ++t) {
    const bool is_known = static_cast<uint32_t>(batch_.tokens[t]) < smallest;
    if (is_known && static_cast<uint32_t>(batch_.positions[t]) < n_positions) continue;
    batch_.seq_status[sequence_of_[t]] = BP_SEQ_FAILED;
    running_[sequence_of_[t]] = 0;
  }
}

void Step::work(uint32_t index, bp_team* team) {
  const Team& threads = *executable_.team_;
  const Worker worker{index, executable_.scratch(index)};
  uint32_t word = phase_.load(std::memory_order_acquire);
  while (word != kEnd) {
    const uint32_t phase = word % kRound;
    const Stage& stage = *executable_.plan_.stages[phase / Stage::kPhases];
    Items items(executable_.shares_, phase, index);
    stage.run(context_, worker, phase % Stage::kPhases, items);
    if (items.n_taken() > 0 && executable_.shares_.complete(items.n_taken())) {
      const bool is_end = open_after(phase) == kEnd;
      is_end ? threads.wake_all(team, phase_) : threads.wake(team, phase_);
    }
    word = threads.wait(team, index, phase_, word);
  }
}

uint32_t Step::open_after(uint32_t phase) {
  if (!repeats_) return open_from(phase + 1);
  ++context_.round;
  return open_from(phase - 1);
}

uint32_t Step::open_from(uint32_t phase) {
  const auto end = static_cast<uint32_t>(executable_.plan_.stages.size()) * Stage::kPhases;
  for (; phase < end; ++phase) {
    const uint32_t stage = phase / Stage::kPhases, part = phase % Stage::kPhases;
    if (part == 0) {
      poll_stop(stage);
      context_.round = 0;
    }
    if (!any_running()) break;
    if (part == 0) executable_.stream_.advance(stage);
    executable_.plan_.stages[stage]->begin(context_, part);
    const PhaseItems items = executable_.plan_.stages[stage]->items(context_, part);
    if (items.n == 0) continue;
    repeats_ = items.repeats;
    executable_.shares_.open(phase, items.n, items.in_order);
    phase_.store(context_.round * kRound + phase, std::memory_order_release);
    return phase;
  }
  phase_.store(kEnd, std::memory_order_release);
  return kEnd;
}

void Step::poll_stop(uint32_t before_stage) {
  if (batch_.stop_seq != nullptr && before_stage <= first_output_stage_) {
    for (uint32_t s = 0; s < batch_.n_seqs; ++s) {
      const auto* stop = &batch_.stop_seq[s];
      if (batch_.seq_status[s] != BP_SEQ_OK || __atomic_load_n(stop, __ATOMIC_RELAXED) == 0)
        continue;
      batch_.seq_status[s] = BP_SEQ_STOPPED;
      running_[s] = 0;
    }
  }
  if (before_stage == first_output_stage_) place_outputs();
}

bool Step::any_running() const {
  return std::ranges::any_of(running_, [](uint8_t r) { return r != 0; });
}

void Step::place_outputs() {
  for (size_t i = 0; i < wanted_.size(); ++i) {
    const PlanOutput& output = executable_.plan_.outputs[wanted_[i].output];
    if (!can_write_direct(output, wanted_[i])) continue;
    is_direct_[i] = true;
    values_[output.buffer] = {static_cast<float*>(wanted_[i].data),
                              wanted_[i].row_stride_bytes / sizeof(float),
                              wanted_[i].greatest == nullptr ? nullptr : &peaks_[i]};
  }
}

bool Step::can_write_direct(const PlanOutput& output, const bp_output& wanted) const {
  const size_t width = executable_.plan_.buffers[output.buffer].width;
  const bool aligned = reinterpret_cast<uintptr_t>(wanted.data) % alignof(float) == 0 &&
                       wanted.row_stride_bytes % sizeof(float) == 0 &&
                       wanted.row_stride_bytes >= width * sizeof(float);
  const bool all_run = std::ranges::all_of(output_rows_[wanted.output], [this](uint32_t t) {
    return batch_.seq_status[sequence_of_[t]] == BP_SEQ_OK;
  });
  return output.is_direct && aligned && all_run && wanted.n_rows > 0;
}

void Step::copy_outputs() const {
  for (size_t i = 0; i < wanted_.size(); ++i) {
    if (is_direct_[i]) continue;
    const bp_output& wanted = wanted_[i];
    const Buffer& buffer =
        executable_.plan_.buffers[executable_.plan_.outputs[wanted.output].buffer];
    const RowsView& value = values_[executable_.plan_.outputs[wanted.output].buffer];
    for (uint32_t r = 0; r < wanted.n_rows; ++r) {
      if (batch_.seq_status[sequence_of_[wanted.rows[r]]] != BP_SEQ_OK) continue;
      const uint32_t row = buffer.count.rows == BP_ROWS_TOKENS ? wanted.rows[r] : r;
      std::memcpy(static_cast<uint8_t*>(wanted.data) + r * wanted.row_stride_bytes, value.row(row),
                  buffer.width * sizeof(float));
    }
  }
}

void Step::tell_greatest() const {
  for (size_t i = 0; i < wanted_.size(); ++i) {
    if (wanted_[i].greatest == nullptr || !is_direct_[i]) continue;
    for (uint32_t r = 0; r < wanted_[i].n_rows; ++r) {
      wanted_[i].greatest[r] = peaks_[i].column_of(r);
    }
  }
}

}  // namespace bp::cpu
