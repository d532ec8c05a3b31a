// add, multiply, scale, activate, clamp, softcap, residual_scale.

#include "backends/cuda/plan/enqueue.hpp"
#include "backends/cuda/plan/plan_ops.hpp"
#include "backplane/ops.h"

namespace bp::cuda {

namespace {

// a with b, or with the floats of weight 0 that repeat along each row.
void add_pair(Planner& planner, const ElementwiseParams& params) {
  const uint32_t a = planner.input(0), y = planner.output(0);
  if (planner.has_input(1)) return add_elementwise(planner, params, a, planner.input(1), y);
  const DeviceWeight* repeated = planner.floats(0);
  const uint32_t width = planner.width(y);
  planner.add([=](const StageContext& c) {
    ElementwiseParams p = params;
    p.a = c.rows(a);
    p.y = c.rows(y);
    p.repeated = repeated->floats();
    p.n_repeated = repeated->source().n_columns;
    p.n_rows = c.n_rows(y);
    p.width = width;
    return c.stream.launch(elementwise_kernel(), elementwise_geometry(p), p);
  });
}

ElementwiseParams of(Elementwise op, float p = 0, float q = 0, uint32_t activation = 0) {
  ElementwiseParams params;
  params.op = op;
  params.p = p;
  params.q = q;
  params.activation = activation;
  return params;
}

Status add_single(Planner& planner, const ElementwiseParams& params) {
  add_elementwise(planner, params, planner.input(0), kNoBuffer, planner.output(0));
  return {};
}

}  // namespace

Status plan_add(Planner& planner) {
  add_pair(planner, of(Elementwise::kAdd));
  return {};
}

Status plan_multiply(Planner& planner) {
  const float offset = planner.attributes<bp_attr_multiply>().weight_offset;
  add_pair(planner, of(Elementwise::kMultiply, planner.has_input(1) ? 0 : offset));
  return {};
}

Status plan_scale(Planner& planner) {
  return add_single(planner, of(Elementwise::kScale, planner.attributes<bp_attr_scale>().factor));
}

Status plan_activate(Planner& planner) {
  return add_single(
      planner, of(Elementwise::kActivate, 0, 0, planner.attributes<bp_attr_activate>().activation));
}

Status plan_clamp(Planner& planner) {
  const auto a = planner.attributes<bp_attr_clamp>();
  return add_single(planner, of(Elementwise::kClamp, a.low, a.high));
}

Status plan_softcap(Planner& planner) {
  return add_single(planner, of(Elementwise::kSoftcap, planner.attributes<bp_attr_softcap>().cap));
}

Status plan_residual_scale(Planner& planner) {
  const auto a = planner.attributes<bp_attr_residual_scale>();
  const uint32_t x = planner.input(0), residual = planner.input(1);
  add_elementwise(planner, of(Elementwise::kAddScaled, a.scale), x, residual, planner.output(0));
  return {};
}

}  // namespace bp::cuda
