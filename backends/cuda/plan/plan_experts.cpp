// moe, route, group_matmul, group_sum.

#include "backends/cuda/kernels/experts.hpp"
#include "backends/cuda/plan/enqueue.hpp"
#include "backends/cuda/plan/plan_ops.hpp"
#include "backplane/ops.h"

namespace bp::cuda {

namespace {

void add_route(Planner& planner, const RouteParams& params, uint32_t logits, uint32_t ids,
               uint32_t shares, const DeviceWeight* bias) {
  const uint32_t n_experts = planner.width(logits);
  planner.add([=](const StageContext& c) {
    RouteParams p = params;
    p.logits = c.rows(logits);
    p.ids = c.rows(ids);
    p.shares = c.rows(shares);
    if (bias != nullptr) p.bias = bias->floats();
    p.n_rows = c.n_rows(logits);
    p.n_experts = n_experts;
    return c.stream.launch(route_kernel(), route_geometry(p), p);
  });
}

void add_group_sum(Planner& planner, uint32_t x, uint32_t shares, uint32_t y) {
  const uint32_t n_groups = planner.width(shares), width = planner.width(y);
  planner.add([=](const StageContext& c) {
    const GroupSumParams p{c.rows(x), c.rows(shares), c.rows(y), c.n_rows(y), n_groups, width};
    return c.stream.launch(group_sum_kernel(), group_sum_geometry(p), p);
  });
}

// Of bp_attr_route and bp_attr_moe.
template <class A>
RouteParams routing_of(const A& a) {
  RouteParams p;
  p.scoring = a.scoring;
  p.n_used = a.n_used;
  p.n_groups = a.n_groups;
  p.n_groups_used = a.n_groups_used;
  p.group_best = a.group_best;
  p.normalise = a.normalise;
  p.scale = a.scale;
  return p;
}

ElementwiseParams gate_of(const bp_attr_moe& a) {
  ElementwiseParams p;
  p.op = a.limit == 0 ? Elementwise::kGate : Elementwise::kGateWithLimits;
  p.activation = a.activation;
  p.p = a.limit;
  p.q = a.alpha;
  return p;
}

}  // namespace

Status plan_moe(Planner& planner) {
  const auto a = planner.attributes<bp_attr_moe>();
  const uint32_t x = planner.input(0), y = planner.output(0);
  const DeviceWeight* router = planner.matrix(0);
  const DeviceWeight* gate = planner.matrix(3);
  const DeviceWeight* up = planner.matrix(4);
  const DeviceWeight* down = planner.matrix(5);
  const uint32_t n_ff = down->source().n_columns;

  ProductSpec routing;
  routing.x = x;
  routing.y = planner.temporary(x, static_cast<uint32_t>(router->source().n_rows));
  routing.weight = router;
  routing.bias = planner.floats(1);
  const uint32_t ids = planner.temporary(x, a.n_used), shares = planner.temporary(x, a.n_used);
  add_product(planner, routing);
  add_route(planner, routing_of(a), routing.y, ids, shares, planner.floats(2));

  const uint32_t gated = planner.temporary(x, a.n_used * n_ff);
  const uint32_t raised = planner.temporary(x, a.n_used * n_ff);
  const uint32_t lowered = planner.temporary(x, a.n_used * planner.width(y));
  const GroupProductSpec both[] = {{x, ids, gated, gate, planner.floats(6), a.n_used},
                                   {x, ids, raised, up, planner.floats(7), a.n_used}};
  add_group_products(planner, both);
  add_group_product(planner,
                    {gated, ids, lowered, down, planner.floats(8), a.n_used, {gate_of(a), raised}});
  add_group_sum(planner, lowered, shares, y);
  return {};
}

Status plan_route(Planner& planner) {
  const auto a = planner.attributes<bp_attr_route>();
  const uint32_t logits = planner.input(0), ids = planner.output(0), shares = planner.output(1);
  add_route(planner, routing_of(a), logits, ids, shares, planner.floats(0));
  return {};
}

Status plan_group_matmul(Planner& planner) {
  const uint32_t n_groups = planner.attributes<bp_attr_group_matmul>().n_groups;
  const uint32_t x = planner.input(0), y = planner.output(0);
  const uint32_t ids = planner.has_input(1) ? planner.input(1) : kNoBuffer;
  add_group_product(planner, {x, ids, y, planner.matrix(0), planner.floats(1), n_groups});
  return {};
}

Status plan_group_sum(Planner& planner) {
  const uint32_t x = planner.input(0), shares = planner.input(1);
  add_group_sum(planner, x, shares, planner.output(0));
  return {};
}

}  // namespace bp::cuda
