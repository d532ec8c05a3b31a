// Mixtures of experts: composite, and routed rows and matrices that rows choose by themselves.

#include <algorithm>

#include "backends/cpu/plan/planner.hpp"
#include "backends/cpu/rows/route.hpp"
#include "backends/cpu/stages/experts_stage.hpp"

namespace bp::cpu {

namespace {

enum MoeWeight : uint32_t {
  kRouter,
  kRouterBias,
  kSelectionBias,
  kGate,
  kUp,
  kDown,
  kGateBias,
  kUpBias,
  kDownBias
};

bp_attr_route routing_of(const bp_attr_moe& a) {
  auto routing = make_growable<bp_attr_route>();
  routing.scoring = a.scoring, routing.n_used = a.n_used;
  routing.n_groups = a.n_groups, routing.n_groups_used = a.n_groups_used;
  routing.group_best = a.group_best, routing.normalise = a.normalise, routing.scale = a.scale;
  return routing;
}

}  // namespace

// The matrices of n_rows rows that a weight consists of.
Matrices Planner::matrices(const bp_op& op, uint32_t slot, uint32_t n_rows, bool are_chosen) {
  const WeightRows all = WeightRows::of(program_.weights()[op.weights[slot]]);
  Matrices made;
  for (uint32_t first = 0; first < all.n_rows; first += n_rows) {
    made.push_back(add_weight(all.slice(first, n_rows), are_chosen));
  }
  return made;
}

Status Planner::plan_moe(const bp_op& op) {
  const auto a = attributes_of<bp_attr_moe>(op);
  ExpertsSpec spec;
  spec.input = take_rows(op.inputs[0]);
  const uint32_t n_experts = WeightRows::of(program_.weights()[op.weights[kRouter]]).n_rows;
  spec.logits = add_buffer(spec.input.count, n_experts);
  MatmulSpec router;
  router.input = spec.input;
  BP_TRY(add_projection(router, op, kRouter, 0, n_experts, vector(op, kRouterBias), spec.logits));
  BP_TRY(add_products(op, std::move(router)));

  spec.routing = routing_of(a);
  spec.selection_bias = vector(op, kSelectionBias);
  spec.n_ff = WeightRows::of(program_.weights()[op.weights[kDown]]).n_columns;
  spec.n_out = static_cast<uint32_t>(value(op.outputs[0]).width);
  spec.activation = a.activation, spec.limit = a.limit, spec.alpha = a.alpha;
  spec.gate_bias = vector(op, kGateBias);
  spec.up_bias = vector(op, kUpBias);
  spec.down_bias = vector(op, kDownBias);
  spec.gate = matrices(op, kGate, spec.n_ff, true);
  spec.up = matrices(op, kUp, spec.n_ff, true);
  spec.down = matrices(op, kDown, spec.n_out, true);
  const uint32_t activation = a.limit == 0 ? a.activation : uint32_t{BP_ACT_SIGMOID};
  BoundKernelPtr kernel;
  if (activation != BP_ACT_NONE) {
    BP_ASSIGN(kernel, overrides_.activate(op, activation, a.n_used * spec.n_ff));
  }
  if (kernel != nullptr) {
    open(op.outputs[0]);
    spec.out = *buffers_[op.outputs[0]];
    take_experts_apart(spec, kernel);
    return {};
  }
  spec.out = open_product(op.outputs[0], spec.residual);
  add_stage<ExpertsStage>(std::move(spec));
  return {};
}

// Every place of another plugin's kernel is a stage of its own, as in the op's body.
void Planner::take_experts_apart(const ExpertsSpec& spec, const BoundKernelPtr& kernel) {
  const RowCount count = spec.input.count;
  const uint32_t n_used = spec.routing.n_used, width = n_used * spec.n_ff;
  const float limit = spec.limit, alpha = spec.alpha;
  GroupMatmulSpec product;
  product.n_groups = n_used;
  product.count = count;
  product.in = stored_rows(spec.input);
  product.has_shared_in = true;
  product.n_in = spec.input.width, product.n_out = spec.n_ff;
  const uint32_t ids = add_buffer(count, n_used), shares = add_buffer(count, n_used);
  add_route(spec.routing, spec.selection_bias, {count, spec.logits, ids, shares},
            static_cast<uint32_t>(spec.gate.size()));
  product.ids = ids;
  const uint32_t gate = add_buffer(count, width), up = add_buffer(count, width);
  product.matrices = spec.gate, product.bias = spec.gate_bias, product.out = gate;
  add_stage<GroupMatmulStage>(product);
  product.matrices = spec.up, product.bias = spec.up_bias, product.out = up;
  add_stage<GroupMatmulStage>(product);

  uint32_t in = gate;
  if (limit != 0) {
    in = add_buffer(count, width);
    add_rows(count, {gate, up}, {in, gate, up}, [=](const StepContext& step, uint32_t r) {
      float* g = step.values[gate].row(r);
      float* u = step.values[up].row(r);
      for (uint32_t i = 0; i < width; ++i) {
        g[i] = std::min(g[i], limit);
        u[i] = std::clamp(u[i], -limit, limit);
      }
      step.kernels->scale(g, alpha, step.values[in].row(r), width);
    });
  }
  const uint32_t activated = add_buffer(count, width), hidden = add_buffer(count, width);
  add_kernel(kernel, count, in, activated);
  add_rows(count, {activated, gate, up}, {hidden}, [=](const StepContext& step, uint32_t r) {
    float* a = step.values[activated].row(r);
    float* h = step.values[hidden].row(r);
    if (limit != 0) step.kernels->multiply(a, step.values[gate].row(r), a, width);
    step.kernels->multiply(a, step.values[up].row(r), h, width);
    if (limit != 0) step.kernels->add(h, a, h, width);
  });

  product.in = hidden, product.has_shared_in = false;
  product.n_in = spec.n_ff, product.n_out = spec.n_out;
  product.matrices = spec.down, product.bias = spec.down_bias;
  product.out = add_buffer(count, n_used * spec.n_out);
  add_stage<GroupMatmulStage>(product);
  add_group_sum(count, product.out, shares, n_used, spec.out, spec.n_out);
}

Status Planner::plan_route(const bp_op& op) {
  const float* bias = vector(op, 0);
  const uint32_t logits = buffer_of(op.inputs[0]);
  const auto n_experts = static_cast<uint32_t>(value(op.inputs[0]).width);
  open(op.outputs[0]);
  open(op.outputs[1]);
  add_route(attributes_of<bp_attr_route>(op), bias,
            {count_of(op.outputs[0]), logits, *buffers_[op.outputs[0]], *buffers_[op.outputs[1]]},
            n_experts);
  return {};
}

void Planner::add_route(const bp_attr_route& attributes, const float* bias,
                        const RouteBuffers& buffers, uint32_t n_experts) {
  const bp_attr_route a = attributes;
  const uint32_t logits = buffers.logits, ids = buffers.ids, shares = buffers.shares;
  add_rows(buffers.count, {logits}, {ids, shares}, [=](const StepContext& step, uint32_t r) {
    route_row(a, step.values[logits].row(r), bias, n_experts, step.values[ids].row(r),
              step.values[shares].row(r));
  });
}

Status Planner::plan_group_matmul(const bp_op& op) {
  GroupMatmulSpec spec;
  spec.n_groups = attributes_of<bp_attr_group_matmul>(op).n_groups;
  spec.n_in = WeightRows::of(program_.weights()[op.weights[0]]).n_columns;
  spec.n_out = static_cast<uint32_t>(value(op.outputs[0]).width / spec.n_groups);
  spec.bias = vector(op, 1);
  spec.count = count_of(op.outputs[0]);
  spec.in = buffer_of(op.inputs[0]);
  spec.has_shared_in = value(op.inputs[0]).width == spec.n_in;
  if (const uint32_t ids = slot_at(input_slots(op), 1); ids != BP_NONE) spec.ids = buffer_of(ids);
  open(op.outputs[0]);
  spec.out = *buffers_[op.outputs[0]];
  spec.matrices = matrices(op, 0, spec.n_out, spec.ids.has_value());
  add_stage<GroupMatmulStage>(std::move(spec));
  return {};
}

Status Planner::plan_group_sum(const bp_op& op) {
  const uint32_t n_groups = attributes_of<bp_attr_group_sum>(op).n_groups;
  const uint32_t x = buffer_of(op.inputs[0]), shares = buffer_of(op.inputs[1]);
  open(op.outputs[0]);
  add_group_sum(count_of(op.outputs[0]), x, shares, n_groups, *buffers_[op.outputs[0]],
                static_cast<uint32_t>(value(op.outputs[0]).width));
  return {};
}

void Planner::add_group_sum(RowCount count, uint32_t x, uint32_t shares, uint32_t n_groups,
                            uint32_t out, uint32_t width) {
  add_rows(count, {x, shares}, {out}, [=](const StepContext& step, uint32_t r) {
    const float* from = step.values[x].row(r);
    const float* share = step.values[shares].row(r);
    float* y = step.values[out].row(r);
    step.kernels->scale(from, share[0], y, width);
    for (uint32_t g = 1; g < n_groups; ++g) {
      step.kernels->multiply_add(from + size_t{g} * width, share[g], y, y, width);
    }
  });
}

}  // namespace bp::cpu
