// short_conv, gated_delta.

#include "backends/cuda/kernels/recurrent.hpp"
#include "backends/cuda/plan/plan_ops.hpp"
#include "backplane/ops.h"

namespace bp::cuda {

Status plan_short_conv(Planner& planner) {
  const auto a = planner.attributes<bp_attr_short_conv>();
  const uint32_t x = planner.input(0), y = planner.output(0), width = planner.width(y);
  const DeviceWeight* w = planner.floats(0);
  const DeviceWeight* bias = planner.floats(1);
  planner.add([=](const StageContext& c) {
    ShortConvParams p;
    p.x = c.rows(x);
    p.y = c.rows(y);
    p.w = w->floats();
    if (bias != nullptr) p.bias = bias->floats();
    p.entries = c.states.entries(a.state_slot);
    p.step = c.step;
    p.n_seqs = c.shape.n_seqs;
    p.width = width;
    p.kernel = a.kernel;
    p.activation = a.activation;
    return c.stream.launch(short_conv_kernel(), short_conv_geometry(p), p);
  });
  return {};
}

Status plan_gated_delta(Planner& planner) {
  const auto attributes = planner.attributes<bp_attr_gated_delta>();
  const uint32_t qkv = planner.input(0), a = planner.input(1), b = planner.input(2);
  const uint32_t o = planner.output(0);
  const DeviceWeight* decay = planner.floats(0);
  const DeviceWeight* dt_bias = planner.floats(1);
  planner.add([=](const StageContext& c) {
    GatedDeltaParams p;
    p.qkv = c.rows(qkv);
    p.a = c.rows(a);
    p.b = c.rows(b);
    p.o = c.rows(o);
    p.decay = decay->floats();
    if (dt_bias != nullptr) p.dt_bias = dt_bias->floats();
    p.entries = c.states.entries(attributes.state_slot);
    p.step = c.step;
    p.n_seqs = c.shape.n_seqs;
    p.n_heads = attributes.n_heads;
    p.n_key_heads = attributes.n_key_heads;
    p.key_dim = attributes.key_dim;
    p.value_dim = attributes.value_dim;
    p.scale = attributes.scale;
    p.eps = attributes.eps;
    return c.stream.launch(gated_delta_kernel(), gated_delta_geometry(p), p);
  });
  return {};
}

}  // namespace bp::cuda
