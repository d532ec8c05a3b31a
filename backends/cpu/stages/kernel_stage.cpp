#include "backends/cpu/stages/kernel_stage.hpp"

namespace bp::cpu {

KernelStage::KernelStage(BoundKernelPtr kernel, RowCount count, uint32_t in, uint32_t out)
    : kernel_(std::move(kernel)), count_(count) {
  reads = {in};
  writes = {out};
}

PhaseItems KernelStage::items(const StepContext& step, uint32_t phase) const {
  return {phase == 0 && count_.of(step) > 0 ? step.n_workers : 0};
}

void KernelStage::run(const StepContext& step, const Worker& worker, uint32_t, Items& items) const {
  for (uint32_t i; (i = items.next()) != WorkShares::kNone;) run_part(step, i, worker.scratch);
}

void KernelStage::run_part(const StepContext& step, uint32_t part, uint8_t* scratch) const {
  const RowsView& x = step.values[reads[0]];
  const RowsView& y = step.values[writes[0]];
  auto call = make_growable<bp_kernel_call>();
  call.n_rows = count_.of(step);
  call.x_stride = x.stride;
  call.y_stride = y.stride;
  call.x = x.data;
  call.y = y.data;
  call.scratch = scratch;
  kernel_->run(call, part, step.n_workers);
}

size_t KernelStage::scratch_bytes(const StageLimits& limits) const {
  return kernel_->scratch_bytes(limits.max_rows(count_));
}

}  // namespace bp::cpu
