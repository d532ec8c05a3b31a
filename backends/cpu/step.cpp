#include "backends/cpu/step.hpp"

#include <algorithm>
#include <cstring>

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
  }
  is_direct_.resize(wanted_.size());
  for (const Buffer& buffer : plan.buffers) {
    auto* data = reinterpret_cast<float*>(executable.workspace_.data() + buffer.offset);
    values_.push_back({data, buffer.stride()});
  }
  for (auto& running : running_) running.assign(batch.n_seqs, 1);
  for (auto& next : executable.next_items_) next.store(0, std::memory_order_relaxed);
  first_output_stage_ = static_cast<uint32_t>(plan.stages.size());
  for (const PlanOutput& output : plan.outputs) {
    if (output.is_direct) first_output_stage_ = std::min(first_output_stage_, output.writer);
  }
}

void Step::run() {
  for (uint32_t i = 0; i < batch_.n_block_ops; ++i) executable_.kv_.apply(batch_.block_ops[i]);
  if (batch_.n_tokens == 0) return;
  fail_bad_tokens();
  poll_stop(0);
  if (!any_running(0)) return;
  executable_.team_->run(
      executable_.n_threads_,
      [this](uint32_t worker, uint32_t n, bp_team* team) { run_stages(worker, n, team); });
  copy_outputs();
}

void Step::fail_bad_tokens() {
  uint32_t smallest = ~0u;
  for (const uint32_t n : executable_.plan_.vocabularies) smallest = std::min(smallest, n);
  for (uint32_t t = 0; t < batch_.n_tokens; ++t) {
    if (static_cast<uint32_t>(batch_.tokens[t]) < smallest) continue;
    batch_.seq_status[sequence_of_[t]] = BP_SEQ_FAILED;
    for (auto& running : running_) running[sequence_of_[t]] = 0;
  }
}

void Step::run_stages(uint32_t worker, uint32_t n, bp_team* team) {
  const auto n_stages = static_cast<uint32_t>(executable_.plan_.stages.size());
  const Worker self{worker, n, executable_.scratch(worker), executable_.team_.get(), team};
  StepContext context;
  context.batch = &batch_;
  context.kernels = &executable_.kernels_;
  context.kv = &executable_.kv_;
  context.values = values_;
  context.sequence_of = sequence_of_;
  context.outputs = output_rows_;
  context.shared = executable_.shared();
  for (uint32_t s = 0; s < n_stages && any_running(s); ++s) {
    context.next_item = &executable_.next_items_[s];
    context.running = running(s);
    executable_.plan_.stages[s]->run(context, self);
    if (worker == 0) poll_stop(s + 1);
    self.barrier();
  }
}

// Worker 0 alone, before the barrier that ends the stage before.
void Step::poll_stop(uint32_t before_stage) {
  if (before_stage > 0) running(before_stage) = running(before_stage - 1);
  if (batch_.stop_seq != nullptr && before_stage <= first_output_stage_) {
    for (uint32_t s = 0; s < batch_.n_seqs; ++s) {
      const auto* stop = &batch_.stop_seq[s];
      if (batch_.seq_status[s] != BP_SEQ_OK || __atomic_load_n(stop, __ATOMIC_RELAXED) == 0)
        continue;
      batch_.seq_status[s] = BP_SEQ_STOPPED;
      running(before_stage)[s] = 0;
    }
  }
  if (before_stage == first_output_stage_) place_outputs();
}

bool Step::any_running(uint32_t stage) const {
  return std::ranges::any_of(running_[stage % 2], [](uint8_t r) { return r != 0; });
}

void Step::place_outputs() {
  for (size_t i = 0; i < wanted_.size(); ++i) {
    const PlanOutput& output = executable_.plan_.outputs[wanted_[i].output];
    if (!can_write_direct(output, wanted_[i])) continue;
    is_direct_[i] = true;
    values_[output.buffer] = {static_cast<float*>(wanted_[i].data),
                              wanted_[i].row_stride_bytes / sizeof(float)};
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

}  // namespace bp::cpu
