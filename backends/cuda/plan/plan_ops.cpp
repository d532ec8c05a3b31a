#include "backends/cuda/plan/plan_ops.hpp"

#include "backplane/ops.h"

namespace bp::cuda {

namespace {

struct Entry {
  std::string_view kind;
  PlanOp plan;
};

constexpr Entry kTable[] = {
    {BP_OP_EMBED, plan_embed},
    {BP_OP_NORM, plan_norm},
    {BP_OP_LINEAR, plan_linear},
    {BP_OP_QKV, plan_qkv},
    {BP_OP_ROPE, plan_rope},
    {BP_OP_ATTENTION, plan_attention},
    {BP_OP_GATED_MLP, plan_gated_mlp},
    {BP_OP_SOFTCAP, plan_softcap},
    {BP_OP_RESIDUAL_SCALE, plan_residual_scale},
    {BP_OP_SELECT_ROWS, plan_select_rows},
    {BP_OP_LM_HEAD, plan_lm_head},
    {BP_OP_MOE, plan_moe},
    {BP_OP_GATHER, plan_gather},
    {BP_OP_MATMUL, plan_matmul},
    {BP_OP_ADD, plan_add},
    {BP_OP_MULTIPLY, plan_multiply},
    {BP_OP_SCALE, plan_scale},
    {BP_OP_NORMALIZE, plan_normalize},
    {BP_OP_ACTIVATE, plan_activate},
    {BP_OP_ROTATE, plan_rotate},
    {BP_OP_KV_WRITE, plan_kv_write},
    {BP_OP_ATTEND, plan_attend},
    {BP_OP_SLICE, plan_slice},
    {BP_OP_SLICE_GROUPS, plan_slice_groups},
    {BP_OP_CONCAT_GROUPS, plan_concat_groups},
    {BP_OP_CLAMP, plan_clamp},
    {BP_OP_ADD_POSITIONS, plan_add_positions},
    {BP_OP_ROUTE, plan_route},
    {BP_OP_GROUP_MATMUL, plan_group_matmul},
    {BP_OP_GROUP_SUM, plan_group_sum},
    {BP_OP_SHORT_CONV, plan_short_conv},
    {BP_OP_GATED_DELTA, plan_gated_delta},
};

}  // namespace

PlanOp find_plan_op(std::string_view kind) {
  for (const Entry& entry : kTable) {
    if (entry.kind == kind) return entry.plan;
  }
  return nullptr;
}

}  // namespace bp::cuda
