#include "ops/ops.hpp"

namespace bp::reference {

namespace {

struct Entry {
  std::string_view kind;
  RunOp run;
};

constexpr Entry kTable[] = {
    {BP_OP_EMBED, run_embed},
    {BP_OP_NORM, run_norm},
    {BP_OP_LINEAR, run_linear},
    {BP_OP_QKV, run_qkv},
    {BP_OP_ROPE, run_rope},
    {BP_OP_ATTENTION, run_attention},
    {BP_OP_GATED_MLP, run_gated_mlp},
    {BP_OP_SOFTCAP, run_softcap},
    {BP_OP_RESIDUAL_SCALE, run_residual_scale},
    {BP_OP_LM_HEAD, run_lm_head},
    {BP_OP_MOE, run_moe},
    {BP_OP_SELECT_ROWS, run_select_rows},
    {BP_OP_GATHER, run_gather},
    {BP_OP_MATMUL, run_matmul},
    {BP_OP_ADD, run_add},
    {BP_OP_MULTIPLY, run_multiply},
    {BP_OP_SCALE, run_scale},
    {BP_OP_NORMALIZE, run_normalize},
    {BP_OP_ACTIVATE, run_activate},
    {BP_OP_ROTATE, run_rotate},
    {BP_OP_KV_WRITE, run_kv_write},
    {BP_OP_ATTEND, run_attend},
    {BP_OP_SLICE, run_slice},
    {BP_OP_SLICE_GROUPS, run_slice_groups},
    {BP_OP_CONCAT_GROUPS, run_concat_groups},
    {BP_OP_CLAMP, run_clamp},
    {BP_OP_ADD_POSITIONS, run_add_positions},
    {BP_OP_ROUTE, run_route},
    {BP_OP_GROUP_MATMUL, run_group_matmul},
    {BP_OP_GROUP_SUM, run_group_sum},
    {BP_OP_SHORT_CONV, run_short_conv},
    {BP_OP_GATED_DELTA, run_gated_delta},
};

}  // namespace

RunOp find_op(std::string_view kind) {
  for (const Entry& entry : kTable) {
    if (entry.kind == kind) return entry.run;
  }
  return nullptr;
}

}  // namespace bp::reference
