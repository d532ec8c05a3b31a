// Ops with state.

#include "backends/cpu/plan/planner.hpp"
#include "backends/cpu/stages/gated_delta_stage.hpp"
#include "backends/cpu/stages/short_conv_stage.hpp"

namespace bp::cpu {

Status Planner::plan_short_conv(const bp_op& op) {
  const auto a = attributes_of<bp_attr_short_conv>(op);
  ShortConvSpec spec;
  spec.state_slot = a.state_slot;
  spec.kernel = a.kernel;
  spec.activation = a.activation;
  spec.width = static_cast<uint32_t>(value(op.inputs[0]).width);
  const float* w = vector(op, 0);
  auto transposed = std::make_unique<std::vector<float>>(size_t{spec.kernel} * spec.width);
  for (size_t c = 0; c < spec.width; ++c) {
    for (size_t j = 0; j < spec.kernel; ++j) {
      (*transposed)[j * spec.width + c] = w[c * spec.kernel + j];
    }
  }
  spec.weights = transposed->data();
  plan_.vectors.push_back(std::move(transposed));
  spec.bias = vector(op, 1);
  spec.in = buffer_of(op.inputs[0]);
  open(op.outputs[0]);
  spec.out = *buffers_[op.outputs[0]];
  add_stage<ShortConvStage>(spec);
  return {};
}

Status Planner::plan_gated_delta(const bp_op& op) {
  const auto a = attributes_of<bp_attr_gated_delta>(op);
  GatedDeltaSpec spec;
  spec.state_slot = a.state_slot;
  spec.n_heads = a.n_heads;
  spec.n_key_heads = a.n_key_heads;
  spec.key_dim = a.key_dim;
  spec.value_dim = a.value_dim;
  spec.scale = a.scale;
  spec.eps = a.eps;
  spec.decay = vector(op, 0);
  spec.dt_bias = vector(op, 1);
  spec.qkv = buffer_of(op.inputs[0]);
  spec.a = buffer_of(op.inputs[1]);
  spec.b = buffer_of(op.inputs[2]);
  open(op.outputs[0]);
  spec.out = *buffers_[op.outputs[0]];
  add_stage<GatedDeltaStage>(spec);
  return {};
}

}  // namespace bp::cpu
