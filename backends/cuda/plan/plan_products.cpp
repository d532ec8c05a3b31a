// matmul, linear, qkv, gated_mlp, lm_head.

#include "backends/cuda/plan/enqueue.hpp"
#include "backends/cuda/plan/plan_ops.hpp"
#include "backplane/ops.h"

namespace bp::cuda {

namespace {

ProductSpec first_product(Planner& planner) {
  ProductSpec spec;
  spec.x = planner.input(0);
  spec.y = planner.output(0);
  spec.weight = planner.matrix(0);
  return spec;
}

}  // namespace

Status plan_matmul(Planner& planner) {
  add_product(planner, first_product(planner));
  return {};
}

Status plan_linear(Planner& planner) {
  ProductSpec spec = first_product(planner);
  spec.bias = planner.floats(1);
  spec.activation = planner.attributes<bp_attr_linear>().activation;
  add_product(planner, spec);
  return {};
}

Status plan_lm_head(Planner& planner) {
  const auto a = planner.attributes<bp_attr_lm_head>();
  ProductSpec spec = first_product(planner);
  spec.bias = planner.floats(1);
  spec.scale = a.scale;
  spec.softcap = a.softcap;
  add_product(planner, spec);
  return {};
}

Status plan_qkv(Planner& planner) {
  constexpr uint32_t kBias = 3;  // slot of q; those of k and v follow
  const auto a = planner.attributes<bp_attr_qkv>();
  const bool is_packed = !planner.has_weight(1);
  const uint32_t x = planner.input(0);
  uint32_t first_row = 0;
  ProductSpec specs[3];
  for (uint32_t i = 0; i < 3; ++i) {
    ProductSpec& spec = specs[i];
    spec.x = x;
    spec.y = planner.output(i);
    spec.weight = planner.matrix(is_packed ? 0 : i);
    spec.bias = planner.floats(is_packed ? kBias : kBias + i);
    spec.first_row = spec.first_bias = first_row;
    if (is_packed) first_row += planner.width(spec.y);
  }
  add_products(planner, specs);
  if (planner.head_chain() != nullptr) return {};  // attention's first launch has the norms
  for (uint32_t i = 0; i < 2; ++i) {
    if (!planner.has_weight(kQNormOfQkv + i)) continue;
    NormSpec norm;
    norm.x = norm.y = specs[i].y;
    norm.weight = planner.floats(kQNormOfQkv + i);
    norm.kind = a.norm_kind;
    norm.eps = a.norm_eps;
    norm.weight_offset = a.norm_weight_offset;
    norm.group = a.head_dim;
    add_norm(planner, norm);
  }
  return {};
}

Status plan_gated_mlp(Planner& planner) {
  const auto a = planner.attributes<bp_attr_gated_mlp>();
  const bool is_packed = !planner.has_weight(1);
  const DeviceWeight* down = planner.matrix(2);
  const uint32_t n_ff = down->source().n_columns;
  const uint32_t x = planner.input(0);
  const uint32_t gate = planner.temporary(x, n_ff), up = planner.temporary(x, n_ff);
  ProductSpec both[2];
  for (uint32_t i = 0; i < 2; ++i) {
    both[i].x = x;
    both[i].y = i == 0 ? gate : up;
    both[i].weight = planner.matrix(is_packed ? 0 : i);
    both[i].bias = planner.floats(is_packed ? 3 : 3 + i);
    if (is_packed) both[i].first_row = both[i].first_bias = i * n_ff;
  }
  // Both by weights of one type, so that they are launched together.
  const bool is_joined = both[0].weight->source().dtype == both[1].weight->source().dtype;
  both[0].is_gate = is_joined;
  both[0].gate_activation = a.activation;
  add_products(planner, both);
  ElementwiseParams gated;
  gated.op = Elementwise::kGate;
  gated.activation = a.activation;
  ProductSpec last;
  last.gate = {gated, up};
  if (is_joined) {
    const SourceRows& source = both[0].weight->source();
    last.gate.made_by = {source.dtype, source.n_columns, n_ff};
  }
  last.x = gate;
  last.y = planner.output(0);
  last.weight = down;
  last.bias = planner.floats(5);
  add_product(planner, last);
  return {};
}

}  // namespace bp::cuda
