#include "backends/cuda/plan/enqueue.hpp"

#include "backends/cuda/kernels/norm.hpp"
#include "backplane/ops.h"

namespace bp::cuda {

namespace {

uint32_t n_values(const DeviceWeight& weight) {
  return static_cast<uint32_t>(weight.source().n_rows * weight.source().n_columns);
}

}  // namespace

void add_norm(Planner& planner, const NormSpec& spec) {
  const uint32_t width = planner.width(spec.x);
  Prepared prepared;
  if (spec.group == 0) prepared = prepare_for_consumer(planner, spec.y);
  planner.add([spec, width, prepared, device = planner.device()](const StageContext& c) {
    NormParams p;
    p.x = c.rows(spec.x);
    if (spec.residual != kNoBuffer) p.residual = c.rows(spec.residual);
    if (spec.sum != kNoBuffer) p.sum = c.rows(spec.sum);
    p.y = c.rows(spec.y);
    if (spec.weight != nullptr) {
      p.weight = spec.weight->floats();
      p.n_weights = n_values(*spec.weight);
    }
    if (spec.bias != nullptr) {
      p.bias = spec.bias->floats();
      p.n_biases = n_values(*spec.bias);
    }
    p.n_rows = c.n_rows(spec.y);
    p.width = width;
    p.group = spec.group == 0 ? width : spec.group;
    p.eps = spec.eps;
    p.weight_offset = spec.weight_offset;
    p.subtracts_mean = spec.kind == BP_NORM_LAYER ? 1 : 0;
    p.form = form_of(prepared, p.n_rows, device);
    if (p.form != XForm::kFloats) {
      p.prepared = {c.bytes(prepared.buffer), prepared_bytes(prepared.n_in)};
    }
    return c.stream.launch(norm_kernel(p), norm_geometry(p), p);
  });
}

Rotation rotation_of(const bp_attr_rope& rope, const DeviceWeight& inv_freq) {
  return {inv_freq.floats(), rope.n_dims, rope.pairing == BP_ROPE_HALVES ? 1u : 0u, rope.magnitude};
}

void add_elementwise(Planner& planner, const ElementwiseParams& params, uint32_t a, uint32_t b,
                     uint32_t y) {
  const uint32_t width = planner.width(y);
  planner.add([params, a, b, y, width](const StageContext& c) {
    ElementwiseParams p = params;
    p.a = c.rows(a);
    if (b != kNoBuffer) p.b = c.rows(b);
    p.y = c.rows(y);
    p.n_rows = c.n_rows(y);
    p.width = width;
    return c.stream.launch(elementwise_kernel(), elementwise_geometry(p), p);
  });
}

}  // namespace bp::cuda
