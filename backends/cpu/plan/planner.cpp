#include "backends/cpu/plan/planner.hpp"

#include <algorithm>
#include <string_view>

namespace bp::cpu {

Planner::Planner(const ProgramView& program, WeightStore& weights, Prepare prepare,
                 const Overrides& overrides, uint32_t max_tokens)
    : program_(program),
      weights_(weights),
      prepare_(prepare),
      overrides_(overrides),
      max_tokens_(max_tokens) {
  plan_.kernel_failure = overrides.failure();
  uses_.resize(program.values().size());
  buffers_.resize(program.values().size());
  producers_.assign(program.values().size(), BP_NONE);
}

Result<Plan> Planner::run() {
  for (uint32_t i = 0; i < program_.ops().size(); ++i) {
    const bp_op& op = program_.ops()[i];
    for (const uint32_t v : input_slots(op)) {
      if (v != BP_NONE) uses_[v].ops.push_back(i);
    }
    for (const uint32_t v : output_slots(op)) {
      if (v != BP_NONE) producers_[v] = i;
    }
  }
  for (const uint32_t v : program_.outputs()) uses_[v].ops.push_back(BP_NONE);
  const auto n_ops = static_cast<uint32_t>(program_.ops().size());
  for (op_index_ = 0; op_index_ < n_ops; ++op_index_) {
    const bp_op& op = program_.ops()[op_index_];
    const Status status = plan_op(op_index_);
    if (!status.ok()) return status.with_context(describe(op));
  }
  if (plan_.stages.size() * Stage::kPhases >= WorkShares::kMaxPhase) {
    return unsupported("a step of " + std::to_string(plan_.stages.size()) + " stages is too long");
  }
  for (const uint32_t v : program_.outputs()) {
    PlanOutput output;
    output.buffer = buffer_of(v);
    plan_.buffers[output.buffer].is_output = true;
    for (uint32_t s = 0; s < plan_.stages.size(); ++s) {
      const auto& writes = plan_.stages[s]->writes;
      if (std::ranges::find(writes, output.buffer) != writes.end()) output.writer = s;
    }
    output.is_direct = value(v).rows == BP_ROWS_OUTPUT && uses_[v].ops.size() == 1;
    plan_.outputs.push_back(output);
  }
  return std::move(plan_);
}

Status Planner::plan_op(uint32_t index) {
  const bp_op& op = program_.ops()[index];
  const std::string_view kind = kind_of(op);
  const auto activate = [](const Kernels& k, uint32_t act, float, const float* x, float* y,
                           size_t n) { k.activate(act, x, y, n); };
  const auto scale = [](const Kernels& k, uint32_t, float factor, const float* x, float* y,
                        size_t n) { k.scale(x, factor, y, n); };
  const auto softcap = [](const Kernels& k, uint32_t, float cap, const float* x, float* y,
                          size_t n) { k.softcap(x, cap, y, n); };
  if (kind == BP_OP_EMBED) return plan_embed(op, attributes_of<bp_attr_embed>(op).scale);
  if (kind == BP_OP_GATHER) return plan_embed(op, 1);
  if (kind == BP_OP_NORM) return plan_norm(op);
  if (kind == BP_OP_NORMALIZE) return plan_normalize(op);
  if (kind == BP_OP_SELECT_ROWS) return plan_select_rows(op);
  if (kind == BP_OP_LINEAR) return plan_linear(op);
  if (kind == BP_OP_MATMUL) return plan_matmul(op);
  if (kind == BP_OP_LM_HEAD) return plan_lm_head(op);
  if (kind == BP_OP_QKV) return plan_qkv(op);
  if (kind == BP_OP_GATED_MLP) return plan_gated_mlp(op);
  if (kind == BP_OP_MOE) return plan_moe(op);
  if (kind == BP_OP_ROPE) return plan_rope(op);
  if (kind == BP_OP_ROTATE) return plan_rotate(op);
  if (kind == BP_OP_ATTENTION || kind == BP_OP_ATTEND) return plan_attention(op);
  if (kind == BP_OP_KV_WRITE) return plan_kv_write(op);
  if (kind == BP_OP_ADD) return plan_pair(op, false);
  if (kind == BP_OP_MULTIPLY) return plan_pair(op, true);
  if (kind == BP_OP_RESIDUAL_SCALE) return plan_residual_scale(op);
  if (kind == BP_OP_SLICE) return plan_slice(op);
  if (kind == BP_OP_SLICE_GROUPS) return plan_slice_groups(op);
  if (kind == BP_OP_CONCAT_GROUPS) return plan_concat_groups(op);
  if (kind == BP_OP_CLAMP) return plan_clamp(op);
  if (kind == BP_OP_ADD_POSITIONS) return plan_add_positions(op);
  if (kind == BP_OP_ROUTE) return plan_route(op);
  if (kind == BP_OP_GROUP_MATMUL) return plan_group_matmul(op);
  if (kind == BP_OP_GROUP_SUM) return plan_group_sum(op);
  if (kind == BP_OP_SHORT_CONV) return plan_short_conv(op);
  if (kind == BP_OP_GATED_DELTA) return plan_gated_delta(op);
  if (kind == BP_OP_ACTIVATE) {
    BP_ASSIGN(const bool overridden, activate_by_kernel(op));
    if (overridden) return {};
    return plan_unary(op, attributes_of<bp_attr_activate>(op).activation, 0, activate);
  }
  if (kind == BP_OP_SCALE) {
    return plan_unary(op, 0, attributes_of<bp_attr_scale>(op).factor, scale);
  }
  if (kind == BP_OP_SOFTCAP) {
    return plan_unary(op, 0, attributes_of<bp_attr_softcap>(op).cap, softcap);
  }
  return unsupported("this kind of op is unknown");
}

}  // namespace bp::cpu
