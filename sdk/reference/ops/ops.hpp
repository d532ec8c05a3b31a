#pragma once
// One function per op; they are found by kind.

#include <string_view>

#include "backplane/reference/op_call.hpp"
#include "backplane/status.hpp"

namespace bp::reference {

using RunOp = Status (*)(const OpCall& call);

// nullptr for an unknown kind.
[[nodiscard]] RunOp find_op(std::string_view kind);

Status run_embed(const OpCall& call);
Status run_norm(const OpCall& call);
Status run_linear(const OpCall& call);
Status run_qkv(const OpCall& call);
Status run_rope(const OpCall& call);
Status run_attention(const OpCall& call);
Status run_gated_mlp(const OpCall& call);
Status run_softcap(const OpCall& call);
Status run_residual_scale(const OpCall& call);
Status run_lm_head(const OpCall& call);
Status run_moe(const OpCall& call);

Status run_select_rows(const OpCall& call);
Status run_gather(const OpCall& call);
Status run_matmul(const OpCall& call);
Status run_add(const OpCall& call);
Status run_multiply(const OpCall& call);
Status run_scale(const OpCall& call);
Status run_normalize(const OpCall& call);
Status run_activate(const OpCall& call);
Status run_rotate(const OpCall& call);
Status run_kv_write(const OpCall& call);
Status run_attend(const OpCall& call);
Status run_slice(const OpCall& call);
Status run_slice_groups(const OpCall& call);
Status run_concat_groups(const OpCall& call);
Status run_clamp(const OpCall& call);
Status run_add_positions(const OpCall& call);
Status run_route(const OpCall& call);
Status run_group_matmul(const OpCall& call);
Status run_group_sum(const OpCall& call);
Status run_short_conv(const OpCall& call);
Status run_gated_delta(const OpCall& call);

}  // namespace bp::reference
