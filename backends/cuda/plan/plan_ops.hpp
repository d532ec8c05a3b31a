#pragma once
// The functions that plan one kind of op each.

#include "backends/cuda/plan/planner.hpp"

namespace bp::cuda {

// plan_rows.cpp
Status plan_embed(Planner& planner);
Status plan_gather(Planner& planner);
Status plan_add_positions(Planner& planner);
Status plan_norm(Planner& planner);
Status plan_normalize(Planner& planner);
Status plan_rope(Planner& planner);
Status plan_rotate(Planner& planner);
// plan_columns.cpp
Status plan_select_rows(Planner& planner);
Status plan_slice(Planner& planner);
Status plan_slice_groups(Planner& planner);
Status plan_concat_groups(Planner& planner);
// plan_elementwise.cpp
Status plan_add(Planner& planner);
Status plan_multiply(Planner& planner);
Status plan_scale(Planner& planner);
Status plan_activate(Planner& planner);
Status plan_clamp(Planner& planner);
Status plan_softcap(Planner& planner);
Status plan_residual_scale(Planner& planner);
// plan_products.cpp
Status plan_matmul(Planner& planner);
Status plan_linear(Planner& planner);
Status plan_qkv(Planner& planner);
Status plan_gated_mlp(Planner& planner);
Status plan_lm_head(Planner& planner);
// plan_attention.cpp
Status plan_attention(Planner& planner);
Status plan_attend(Planner& planner);
Status plan_kv_write(Planner& planner);
// plan_experts.cpp
Status plan_moe(Planner& planner);
Status plan_route(Planner& planner);
Status plan_group_matmul(Planner& planner);
Status plan_group_sum(Planner& planner);
// plan_recurrent.cpp
Status plan_short_conv(Planner& planner);
Status plan_gated_delta(Planner& planner);

}  // namespace bp::cuda
