#include <algorithm>
#include <cstring>

#include "backends/cpu/plan/planner.hpp"
#include "backplane/dtype.hpp"
#include "backplane/reference/decode.hpp"

namespace bp::cpu {

namespace {

uint32_t width_of_vector(const ProgramView& program, const bp_op& op, uint32_t slot) {
  const uint32_t weight = slot_at(weight_slots(op), slot);
  return weight == BP_NONE ? 0 : WeightRows::of(program.weights()[weight]).n_columns;
}

}  // namespace

Status Planner::plan_embed(const bp_op& op, float scale) {
  const WeightRows table = WeightRows::of(program_.weights()[op.weights[0]]);
  plan_.vocabularies.push_back(table.n_rows);
  plan_.tables.push_back(table);
  open(op.outputs[0]);
  const uint32_t out = *buffers_[op.outputs[0]];
  const reference::BlockDecoder decode = reference::block_decoder(table.dtype);
  const uint64_t n_blocks = table.n_columns / dtype_info(table.dtype).block_elements;
  add_rows(count_of(op.outputs[0]), {}, {out}, [=](const StepContext& step, uint32_t t) {
    float* y = step.values[out].row(t);
    const auto id = static_cast<uint32_t>(step.batch->tokens[t]);
    if (id >= table.n_rows) {  // its sequence has failed
      std::fill_n(y, table.n_columns, 0.0f);
      return;
    }
    decode(table.row(id), n_blocks, y);
    if (scale != 1) step.kernels->scale(y, scale, y, table.n_columns);
  });
  return {};
}

Status Planner::plan_norm(const bp_op& op) {
  const auto a = attributes_of<bp_attr_norm>(op);
  const uint32_t x = op.inputs[0];
  const uint32_t residual = slot_at(input_slots(op), 1);
  const uint32_t sum = slot_at(output_slots(op), 1);
  RowSource source;
  source.width = static_cast<uint32_t>(value(x).width);
  source.count = count_of(x);
  if (const auto summed = summed_.find(op_index_); summed != summed_.end()) {
    source.buffer = summed->second;
  } else if (residual == BP_NONE && sum == BP_NONE) {
    source.buffer = buffer_of(x);
  } else {
    const uint32_t in = buffer_of(x);
    const uint32_t other = residual == BP_NONE ? in : buffer_of(residual);
    const uint32_t width = source.width;
    const uint32_t out = add_buffer(source.count, width);
    if (sum != BP_NONE) buffers_[sum] = out;
    const bool adds = residual != BP_NONE;
    add_rows(source.count, {in, other}, {out}, [=](const StepContext& step, uint32_t r) {
      const float* row = step.values[in].row(r);
      float* y = step.values[out].row(r);
      if (adds) {
        step.kernels->add(row, step.values[other].row(r), y, width);
      } else {
        std::memcpy(y, row, width * sizeof(float));
      }
    });
    source.buffer = out;
  }
  BP_ASSIGN(const bool overridden, norm_by_kernel(op, a, source));
  if (overridden) return {};
  source.norm = Normalization{a.kind,
                              a.eps,
                              a.weight_offset,
                              a.group,
                              vector(op, 0),
                              vector(op, 1),
                              width_of_vector(program_, op, 0),
                              width_of_vector(program_, op, 1)};
  const uint32_t y = op.outputs[0];
  held_rows_[y] = source;
  const auto consumer = only_consumer(y);
  const bool selected = consumer && kind_of(program_.ops()[*consumer]) == BP_OP_SELECT_ROWS;
  if (!feeds_product(y) && !selected) buffer_of(y);
  return {};
}

Status Planner::plan_normalize(const bp_op& op) {
  const auto a = attributes_of<bp_attr_normalize>(op);
  Normalization norm;
  norm.kind = a.kind;
  norm.eps = a.eps;
  norm.group = a.group;
  RowSource source;
  source.buffer = buffer_of(op.inputs[0]);
  source.width = static_cast<uint32_t>(value(op.inputs[0]).width);
  source.count = count_of(op.inputs[0]);
  auto attributes = make_growable<bp_attr_norm>();
  attributes.kind = a.kind, attributes.eps = a.eps, attributes.group = a.group;
  BP_ASSIGN(const bool overridden, norm_by_kernel(op, attributes, source));
  if (overridden) return {};
  source.norm = norm;
  held_rows_[op.outputs[0]] = source;
  buffer_of(op.outputs[0]);
  return {};
}

Status Planner::plan_select_rows(const bp_op& op) {
  const uint32_t y = op.outputs[0];
  RowSource source = take_rows(op.inputs[0]);
  source.count = count_of(y);
  source.selected_for = value(y).output;
  held_rows_[y] = source;
  if (!feeds_product(y)) buffer_of(y);
  return {};
}

Status Planner::plan_pair(const bp_op& op, bool multiplies) {
  const uint32_t a = buffer_of(op.inputs[0]);
  const uint32_t b = slot_at(input_slots(op), 1);
  const uint32_t other = b == BP_NONE ? a : buffer_of(b);
  const auto width = static_cast<uint32_t>(value(op.inputs[0]).width);
  open(op.outputs[0]);
  const uint32_t out = *buffers_[op.outputs[0]];
  // A weight is repeated to the whole width once, so that rows need one call.
  const float* weight = nullptr;
  if (b == BP_NONE) {
    const float* w = vector(op, 0);
    const uint32_t n = width_of_vector(program_, op, 0);
    const float offset = multiplies ? attributes_of<bp_attr_multiply>(op).weight_offset : 0;
    auto repeated = std::make_unique<std::vector<float>>(width);
    for (uint32_t i = 0; i < width; ++i) (*repeated)[i] = w[i % n] + offset;
    weight = repeated->data();
    plan_.vectors.push_back(std::move(repeated));
  }
  add_rows(count_of(op.outputs[0]), {a, other}, {out}, [=](const StepContext& step, uint32_t r) {
    const float* second = weight != nullptr ? weight : step.values[other].row(r);
    const auto combine = multiplies ? step.kernels->multiply : step.kernels->add;
    combine(step.values[a].row(r), second, step.values[out].row(r), width);
  });
  return {};
}

Status Planner::plan_residual_scale(const bp_op& op) {
  const float scale = attributes_of<bp_attr_residual_scale>(op).scale;
  const uint32_t x = buffer_of(op.inputs[0]);
  const uint32_t residual = buffer_of(op.inputs[1]);
  const auto width = static_cast<uint32_t>(value(op.inputs[0]).width);
  open(op.outputs[0]);
  const uint32_t out = *buffers_[op.outputs[0]];
  add_rows(count_of(op.outputs[0]), {x, residual}, {out}, [=](const StepContext& step, uint32_t r) {
    step.kernels->multiply_add(step.values[x].row(r), scale, step.values[residual].row(r),
                               step.values[out].row(r), width);
  });
  return {};
}

Status Planner::plan_slice(const bp_op& op) {
  const auto a = attributes_of<bp_attr_slice>(op);
  const uint32_t x = buffer_of(op.inputs[0]);
  open(op.outputs[0]);
  const uint32_t out = *buffers_[op.outputs[0]];
  add_rows(count_of(op.outputs[0]), {x}, {out}, [=](const StepContext& step, uint32_t r) {
    std::memcpy(step.values[out].row(r), step.values[x].row(r) + a.first, a.n * sizeof(float));
  });
  return {};
}

Status Planner::plan_unary(const bp_op& op, uint32_t activation, float a, RowFunction function) {
  const uint32_t x = buffer_of(op.inputs[0]);
  const auto width = static_cast<uint32_t>(value(op.inputs[0]).width);
  open(op.outputs[0]);
  const uint32_t out = *buffers_[op.outputs[0]];
  add_rows(count_of(op.outputs[0]), {x}, {out}, [=](const StepContext& step, uint32_t r) {
    function(*step.kernels, activation, a, step.values[x].row(r), step.values[out].row(r), width);
  });
  return {};
}

}  // namespace bp::cpu
