// Ops over groups of columns.

#include <algorithm>
#include <cstring>

#include "backends/cpu/plan/planner.hpp"
#include "backplane/dtype.hpp"
#include "backplane/reference/decode.hpp"

namespace bp::cpu {

Status Planner::plan_slice_groups(const bp_op& op) {
  const auto a = attributes_of<bp_attr_slice_groups>(op);
  const uint32_t x = buffer_of(op.inputs[0]);
  const auto group = static_cast<uint32_t>(value(op.inputs[0]).width / a.n_groups);
  open(op.outputs[0]);
  const uint32_t out = *buffers_[op.outputs[0]];
  add_rows(count_of(op.outputs[0]), {x}, {out}, [=](const StepContext& step, uint32_t r) {
    for (uint32_t g = 0; g < a.n_groups; ++g) {
      std::memcpy(step.values[out].row(r) + size_t{g} * a.n,
                  step.values[x].row(r) + size_t{g} * group + a.first, a.n * sizeof(float));
    }
  });
  return {};
}

Status Planner::plan_concat_groups(const bp_op& op) {
  const auto attributes = attributes_of<bp_attr_concat_groups>(op);
  const uint32_t a = buffer_of(op.inputs[0]), b = buffer_of(op.inputs[1]);
  const size_t a_group = value(op.inputs[0]).width / attributes.n_groups;
  const size_t b_group = value(op.inputs[1]).width / attributes.b_groups;
  open(op.outputs[0]);
  const uint32_t out = *buffers_[op.outputs[0]];
  add_rows(count_of(op.outputs[0]), {a, b}, {out}, [=](const StepContext& step, uint32_t r) {
    for (uint32_t g = 0; g < attributes.n_groups; ++g) {
      float* y = step.values[out].row(r) + g * (a_group + b_group);
      std::memcpy(y, step.values[a].row(r) + g * a_group, a_group * sizeof(float));
      const size_t of_b = attributes.b_groups == 1 ? 0 : g;
      std::memcpy(y + a_group, step.values[b].row(r) + of_b * b_group, b_group * sizeof(float));
    }
  });
  return {};
}

Status Planner::plan_clamp(const bp_op& op) {
  const auto a = attributes_of<bp_attr_clamp>(op);
  const uint32_t x = buffer_of(op.inputs[0]);
  const auto width = static_cast<uint32_t>(value(op.inputs[0]).width);
  open(op.outputs[0]);
  const uint32_t out = *buffers_[op.outputs[0]];
  add_rows(count_of(op.outputs[0]), {x}, {out}, [=](const StepContext& step, uint32_t r) {
    const float* row = step.values[x].row(r);
    float* y = step.values[out].row(r);
    for (uint32_t i = 0; i < width; ++i) y[i] = std::min(std::max(row[i], a.low), a.high);
  });
  return {};
}

Status Planner::plan_add_positions(const bp_op& op) {
  const auto offset = static_cast<int64_t>(attributes_of<bp_attr_add_positions>(op).offset);
  const WeightRows table = WeightRows::of(program_.weights()[op.weights[0]]);
  const reference::BlockDecoder decode = reference::block_decoder(table.dtype);
  const uint64_t n_blocks = table.n_columns / dtype_info(table.dtype).block_elements;
  const uint32_t x = buffer_of(op.inputs[0]);
  open(op.outputs[0]);
  const uint32_t out = *buffers_[op.outputs[0]];
  plan_.tables.push_back(table);
  plan_.positions.push_back(
      static_cast<uint32_t>(std::max<int64_t>(0, static_cast<int64_t>(table.n_rows) - offset)));
  add_rows(count_of(op.outputs[0]), {x}, {out}, [=](const StepContext& step, uint32_t t) {
    const int64_t at = step.batch->positions[t] + offset;
    float* y = step.values[out].row(t);
    if (at < 0 || at >= table.n_rows) {  // its sequence has failed
      std::fill_n(y, table.n_columns, 0.0f);
      return;
    }
    decode(table.row(static_cast<uint64_t>(at)), n_blocks, y);
    step.kernels->add(y, step.values[x].row(t), y, table.n_columns);
  });
  return {};
}

}  // namespace bp::cpu
