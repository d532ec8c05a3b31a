#include "backends/cpu/stages/kernel_stage.hpp"

namespace bp::cpu {

KernelStage::KernelStage(BoundKernelPtr kernel, RowCount count, uint32_t in, uint32_t out)
    : kernel_(std::move(kernel)), count_(count) {
  reads = {in};
  writes = {out};
}

void KernelStage::run(const StepContext& step, const Worker& worker) const {
  const RowsView& x = step.values[reads[0]];
  const RowsView& y = step.values[writes[0]];
  auto call = make_growable<bp_kernel_call>();
  call.n_rows = count_.of(step);
  call.x_stride = x.stride;
  call.y_stride = y.stride;
  call.x = x.data;
  call.y = y.data;
  call.scratch = worker.scratch;
  if (call.n_rows > 0) kernel_->run(call, worker.index, worker.n);
}

size_t KernelStage::scratch_bytes(const StageLimits& limits) const {
  return kernel_->scratch_bytes(limits.max_rows(count_.rows));
}

}  // namespace bp::cpu
