#include "backends/cuda/step_outputs.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "backends/cuda/kernels/columns.hpp"
#include "backends/cuda/sampling.hpp"
#include "backplane/plugin.hpp"

namespace bp::cuda {

namespace {

constexpr const char* kOutputsPurpose = "the outputs of a step";

}  // namespace

Status StepOutputs::allocate(Device& device, const Plan& plan, uint32_t max_rows) {
  plan_ = &plan;
  uint32_t widest = 0, widest_gathered = 0;
  for (const uint32_t buffer : plan.outputs) {
    const Buffer& b = plan.buffers[buffer];
    widest = std::max(widest, b.stride());
    if (b.rows == BP_ROWS_TOKENS) widest_gathered = std::max(widest_gathered, b.stride());
    widths_.push_back(b.width);
  }
  room_bytes_ = size_t{max_rows} * widest * sizeof(float);
  BP_ASSIGN(gathered_,
            device.allocate(MemoryKind::kDevice, size_t{max_rows} * widest_gathered * sizeof(float),
                            kOutputsPurpose));
  return {};
}

Result<Memory> StepOutputs::make_room(Device& device) const {
  return device.allocate(MemoryKind::kPinned, room_bytes_, kOutputsPurpose);
}

Status StepOutputs::load_kernels(Stream& loader) const {
  ColumnsParams p;
  p.n_rows = p.n = 1;
  return loader.launch(columns_kernel(), columns_geometry(p), p);
}

const Buffer& StepOutputs::buffer_of(const bp_output& output) const {
  return plan_->buffers[plan_->outputs[output.output]];
}

Status StepOutputs::bring(const bp_batch& batch, const StageContext& context,
                          const Memory& room) const {
  uint8_t* to = room.data();
  uint8_t* chosen = gathered_.data();
  for (uint32_t i = 0; i < batch.n_outputs; ++i) {
    const bp_output output = copy_growable(batch.outputs[i]);
    const Buffer& b = buffer_of(output);
    const Rows rows = context.rows(plan_->outputs[output.output]);
    const float* from = rows.data;
    if (b.rows == BP_ROWS_TOKENS && output.n_rows > 0) {
      ColumnsParams p;
      p.x = rows;
      p.y = {reinterpret_cast<float*>(chosen), b.stride()};
      p.step = context.step;
      p.output = output.output;
      p.n_rows = output.n_rows;
      p.n = b.width;
      BP_TRY(context.stream.launch(columns_kernel(), columns_geometry(p), p));
      from = p.y.data;
      chosen += size_t{output.n_rows} * b.stride() * sizeof(float);
    }
    BP_TRY(bring_rows(context.stream, output, from, to));
  }
  return {};
}

// Neighbours at once.
Status StepOutputs::bring_rows(Stream& stream, const bp_output& output, const float* from,
                               uint8_t*& to) const {
  const size_t stride = buffer_of(output).stride();
  for (uint32_t begin = 0, end = 0; begin < output.n_rows; begin = end) {
    const bool is_wanted = gives_logits(output, begin);
    for (end = begin + 1; end < output.n_rows && gives_logits(output, end) == is_wanted;) ++end;
    if (!is_wanted) continue;
    const size_t n_bytes = (end - begin) * stride * sizeof(float);
    BP_TRY(stream.copy_to_host(to, from + begin * stride, n_bytes));
    to += n_bytes;
  }
  return {};
}

void StepOutputs::hand_over(const bp_batch& batch, const std::vector<uint32_t>& sequence_of,
                            const Memory& room) const {
  const uint8_t* from = room.data();
  for (uint32_t i = 0; i < batch.n_outputs; ++i) {
    const bp_output output = copy_growable(batch.outputs[i]);
    const Buffer& b = buffer_of(output);
    for (uint32_t r = 0; r < output.n_rows; ++r) {
      if (!gives_logits(output, r)) continue;
      const uint8_t* const row = std::exchange(from, from + b.stride() * sizeof(float));
      if (batch.seq_status[sequence_of[output.rows[r]]] != BP_SEQ_OK) continue;
      std::memcpy(static_cast<uint8_t*>(output.data) + r * output.row_stride_bytes, row,
                  b.width * sizeof(float));
    }
  }
}

}  // namespace bp::cuda
