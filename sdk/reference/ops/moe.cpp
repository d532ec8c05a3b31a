#include <algorithm>
#include <vector>

#include "kernels/kernels.hpp"
#include "ops/ops.hpp"

namespace bp::reference {

namespace {

bp_attr_route routing_of(const bp_attr_moe& a) {
  bp_attr_route routing{};
  routing.scoring = a.scoring, routing.n_used = a.n_used;
  routing.n_groups = a.n_groups, routing.n_groups_used = a.n_groups_used;
  routing.group_best = a.group_best, routing.normalise = a.normalise, routing.scale = a.scale;
  return routing;
}

float gated(const bp_attr_moe& a, float gate, float up) {
  if (a.limit == 0) return static_cast<float>(activate(a.activation, gate) * up);
  const double g = std::min(gate, a.limit), u = std::clamp(up, -a.limit, a.limit);
  return static_cast<float>(g * activate(BP_ACT_SIGMOID, a.alpha * g) * (u + 1));
}

}  // namespace

Status run_moe(const OpCall& call) {
  const auto a = call.attributes<bp_attr_moe>();
  const Matrix x = call.input(0), y = call.output(0);
  const uint64_t n_experts = call.weight(0)->n_rows(), n_ff = call.weight(5)->width();
  const uint64_t width = a.n_used * n_ff;
  std::vector<float> floats(x.n_rows * (n_experts + 2 * a.n_used + 2 * width + a.n_used * y.width));
  float* at = floats.data();
  const auto take = [&](uint64_t columns) {
    const Matrix matrix{at, x.n_rows, columns};
    at += x.n_rows * columns;
    return matrix;
  };
  const Matrix logits = take(n_experts), ids = take(a.n_used), shares = take(a.n_used);
  const Matrix gate = take(width), up = take(width), down = take(a.n_used * y.width);

  project(call, Place::kProduct, x, 0, 0, call.vector(1), logits);
  const bp_attr_route routing = routing_of(a);
  for (uint64_t t = 0; t < x.n_rows; ++t) {
    route_row(routing, logits.row(t), call.vector(2), static_cast<uint32_t>(n_experts), ids.row(t),
              shares.row(t));
  }
  group_matmul(call, x, &ids, a.n_used, *call.weight(3), call.weight(6), gate);
  group_matmul(call, x, &ids, a.n_used, *call.weight(4), call.weight(7), up);
  for (uint64_t i = 0; i < x.n_rows * width; ++i) {
    gate.data[i] = gated(a, gate.data[i], up.data[i]);
  }
  group_matmul(call, gate, &ids, a.n_used, *call.weight(5), call.weight(8), down);
  group_sum(down, shares, y);
  return {};
}

}  // namespace bp::reference
