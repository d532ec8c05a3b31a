#include <algorithm>

#include "backends/cpu/plan/planner.hpp"
#include "backends/cpu/round_up.hpp"

namespace bp::cpu {

Status Planner::add_projection(MatmulSpec& spec, const bp_op& op, uint32_t slot, uint64_t first,
                               uint64_t n, const float* bias, uint32_t out) {
  const bp_weight& weight = program_.weights()[op.weights[slot]];
  Projection projection;
  projection.bias = bias;
  projection.out = out;
  projection.n_rows = static_cast<uint32_t>(n);
  BP_ASSIGN(projection.kernel, overrides_.linear(op, weight, first, n));
  if (projection.kernel == nullptr) {
    projection.weight = add_weight(WeightRows::of(weight).slice(first, n), false);
  }
  spec.projections.push_back(std::move(projection));
  return {};
}

Status Planner::plan_linear(const bp_op& op) {
  MatmulSpec spec;
  spec.activation = attributes_of<bp_attr_linear>(op).activation;
  return plan_product(op, std::move(spec));
}

Status Planner::plan_matmul(const bp_op& op) {
  return plan_product(op, {});
}

Status Planner::plan_lm_head(const bp_op& op) {
  const auto a = attributes_of<bp_attr_lm_head>(op);
  MatmulSpec spec;
  spec.scale = a.scale;
  spec.softcap = a.softcap;
  return plan_product(op, std::move(spec));
}

// One weight in slot 0, its bias in slot 1. Where the result's only use is to be added to a
// residual by a norm, the sum is made here.
Status Planner::plan_product(const bp_op& op, MatmulSpec spec) {
  spec.input = take_rows(op.inputs[0]);
  BP_TRY(add_projection(spec, op, 0, 0, value(op.outputs[0]).width, vector(op, 1), 0));
  spec.projections[0].out = open_product(op.outputs[0], spec.residual);
  return add_products(op, std::move(spec));
}

uint32_t Planner::open_product(uint32_t y, std::optional<uint32_t>& residual) {
  const auto consumer = only_consumer(y);
  if (consumer && kind_of(program_.ops()[*consumer]) == BP_OP_NORM) {
    const bp_op& norm = program_.ops()[*consumer];
    const uint32_t other = slot_at(input_slots(norm), norm.inputs[0] == y ? 1 : 0);
    const bool ready = other != BP_NONE && other != y && buffers_[other].has_value();
    if (ready) {
      residual = *buffers_[other];
      const uint32_t out = add_buffer(count_of(y), static_cast<uint32_t>(value(y).width));
      const uint32_t sum = slot_at(output_slots(norm), 1);
      if (sum != BP_NONE) buffers_[sum] = out;
      summed_[*consumer] = out;
      return out;
    }
  }
  open(y);
  return *buffers_[y];
}

Status Planner::plan_qkv(const bp_op& op) {
  const auto a = attributes_of<bp_attr_qkv>(op);
  MatmulSpec spec;
  spec.input = take_rows(op.inputs[0]);
  const bool packed = slot_at(weight_slots(op), 1) == BP_NONE;
  const uint64_t n_rows[3] = {uint64_t{a.n_heads} * a.head_dim, uint64_t{a.n_kv_heads} * a.head_dim,
                              uint64_t{a.n_kv_heads} * a.v_head_dim};
  const float* packed_bias = packed ? vector(op, 3) : nullptr;
  uint64_t first = 0;
  for (uint32_t i = 0; i < 3; ++i) {
    const float* bias = packed_bias != nullptr ? packed_bias + first
                        : packed               ? nullptr
                                               : vector(op, 3 + i);
    open(op.outputs[i]);
    BP_TRY(add_projection(spec, op, packed ? 0 : i, packed ? first : 0, n_rows[i], bias,
                          *buffers_[op.outputs[i]]));
    first += n_rows[i];
  }
  BP_TRY(add_products(op, std::move(spec)));
  for (uint32_t i = 0; i < 2; ++i) {
    const float* weight = vector(op, 6 + i);
    if (weight == nullptr) continue;
    BP_ASSIGN(const bool overridden, head_norm_by_kernel(op, i));
    if (overridden) continue;
    Normalization norm;
    norm.kind = a.norm_kind;
    norm.eps = a.norm_eps;
    norm.weight_offset = a.norm_weight_offset;
    norm.weight = weight;
    norm.n_weight = a.head_dim;
    HeadSource heads;
    heads.buffer = *buffers_[op.outputs[i]];
    heads.head_dim = a.head_dim;
    heads.norm = norm;
    provide_heads(op.outputs[i], heads);
  }
  return {};
}

Status Planner::plan_gated_mlp(const bp_op& op) {
  const bool packed = slot_at(weight_slots(op), 1) == BP_NONE;
  const WeightRows gate = WeightRows::of(program_.weights()[op.weights[0]]);
  const uint32_t n_ff = packed ? gate.n_rows / 2 : gate.n_rows;
  const float* gate_bias = vector(op, 3);
  const float* up_bias = vector(op, 4);
  if (packed && gate_bias != nullptr) up_bias = gate_bias + n_ff;

  MatmulSpec hidden;
  hidden.input = take_rows(op.inputs[0]);
  hidden.input.count = in_passes(hidden.input.count, n_ff);
  hidden.gated = true;
  hidden.activation = attributes_of<bp_attr_gated_mlp>(op).activation;
  hidden.out_holds_pass = true;
  const RowCount count = hidden.input.count;
  const uint32_t between = add_buffer(count, n_ff);
  const size_t first_weight = plan_.weights.size();
  BP_TRY(add_projection(hidden, op, 0, 0, n_ff, gate_bias, between));
  BP_TRY(add_projection(hidden, op, packed ? 0 : 1, packed ? n_ff : 0, n_ff, up_bias, between));
  BP_TRY(add_products(op, hidden));

  MatmulSpec down;
  down.input.buffer = between;
  down.input.width = n_ff;
  down.input.count = count;
  down.input.holds_pass = true;
  BP_TRY(add_projection(down, op, 2, 0, value(op.outputs[0]).width, vector(op, 5), 0));
  down.projections[0].out = open_product(op.outputs[0], down.residual);
  BP_TRY(add_products(op, down));
  const size_t n_stages = plan_.stages.size();
  add_passes(std::move(hidden), std::move(down));
  if (plan_.stages.size() == n_stages) return {};
  for (size_t i = first_weight; i < plan_.weights.size(); ++i) {
    plan_.weight_last_stages[i] = static_cast<uint32_t>(plan_.stages.size() - 1);
  }
  return {};
}

// The stages of the passes behind the first, which read the same weights.
void Planner::add_passes(MatmulSpec hidden, MatmulSpec down) {
  const RowCount& count = hidden.input.count;
  for (uint32_t pass = 1; uint64_t{pass} * count.most < max_tokens_; ++pass) {
    hidden.input.count.pass = down.input.count.pass = pass;
    add_stage<MatmulStage>(hidden);
    add_stage<MatmulStage>(down);
  }
}

RowCount Planner::in_passes(RowCount count, uint32_t width) const {
  constexpr size_t kPassBytes = size_t{10} << 20;
  constexpr uint32_t kMaxPasses = 128;  // each is two stages a layer
  if (count.rows != BP_ROWS_TOKENS || !overrides_.empty()) return count;
  const size_t fitting = kPassBytes / (size_t{width} * sizeof(float));
  const size_t enough = round_up(max_tokens_ / kMaxPasses + 1, RowCount::kUnit);
  const size_t most = std::max(fitting / RowCount::kUnit * RowCount::kUnit, enough);
  if (most < max_tokens_) count.most = static_cast<uint32_t>(most);
  return count;
}

}  // namespace bp::cpu
