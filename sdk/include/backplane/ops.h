/* backplane/ops.h: the ops of a program.
 *
 *  1. Each op has a spec file (ops/NAME.yaml of the SDK): shapes, attributes with defaults, rounding
 *     points, error bounds, its body in primitives, and test cases. This header is its C form.
 *  2. `in`, `out` and `weights` list the slots in order; a slot in [brackets] may be BP_NONE.
 *     T is the number of rows, weights are [out, in].
 *  3. A backend that lacks a composite says so in check; the core then replaces it by its body and asks
 *     again. Primitives must be supported by every backend that is to run every model.
 *  4. Attribute structs are growable; a zeroed optional attribute means "off" unless said otherwise.
 */
#ifndef BACKPLANE_OPS_H_
#define BACKPLANE_OPS_H_

#include "backplane/program.h"

#ifdef __cplusplus
extern "C" {
#endif

#define BP_ACT_NONE 0u /* x */
#define BP_ACT_SILU 1u /* x / (1 + e^-x) */
#define BP_ACT_GELU 2u      /* exact, by erf */
#define BP_ACT_GELU_TANH 3u /* the tanh approximation */
#define BP_ACT_RELU 4u  /* max(x, 0) */
#define BP_ACT_RELU2 5u /* relu squared */
#define BP_ACT_SIGMOID 6u /* 1 / (1 + e^-x) */
#define BP_ACT_TANH 7u    /* tanh(x) */

#define BP_NORM_RMS 0u   /* x / sqrt(mean(x^2) + eps) */
#define BP_NORM_LAYER 1u /* (x - mean) / sqrt(variance + eps) */

#define BP_ROUTE_SOFTMAX 0u  /* scores are the softmax over all experts */
#define BP_ROUTE_SELECTED 1u /* the softmax over the chosen ones */
#define BP_ROUTE_SIGMOID 2u  /* each expert's by itself */

#define BP_ROPE_HALVES 0u /* pairs (i, i + n_dims/2): "neox" */
#define BP_ROPE_PAIRS 1u  /* pairs (2i, 2i + 1): "norm" */

#define BP_SLOPES_EXACT 0u /* slope * (p - own position) */
#define BP_SLOPES_BF16 1u  /* slope * p, with slope, p and the product rounded to bf16 */

/* ---- composites ---------------------------------------------------------------------------- */

/* embed: in ids; out y [T, dim]; weights table [n_vocab, dim]. y = table[id] * scale. */
#define BP_OP_EMBED "embed"
typedef struct bp_attr_embed {
  uint32_t struct_size;
  float scale; /* default 1 */
  uint64_t required;
} bp_attr_embed;

/* norm: in x, [residual]; out y, [sum]; weights [weight], [bias], each [dim] or [group].
 * sum = x + residual (x without residual); y = normalise(sum) * (weight + weight_offset) + bias. */
#define BP_OP_NORM "norm"
typedef struct bp_attr_norm {
  uint32_t struct_size;
  uint32_t kind; /* BP_NORM_* */
  uint64_t required;
  float eps;
  float weight_offset; /* 1 for weights stored as w - 1 */
  uint32_t group;      /* columns normalised together; 0: the whole row */
  uint32_t reserved;
} bp_attr_norm;

/* linear: in x [T, n_in]; out y [T, n_out]; weights w [n_out, n_in], [bias] [n_out].
 * y = activation(x w^T + bias). */
#define BP_OP_LINEAR "linear"
typedef struct bp_attr_linear {
  uint32_t struct_size;
  uint32_t activation; /* BP_ACT_* */
  uint64_t required;
} bp_attr_linear;

/* qkv: in x; out q [T, n_heads*head_dim], k [T, n_kv_heads*head_dim], v [T, n_kv_heads*v_head_dim];
 * weights q_weight, [k_weight], [v_weight], [q_bias], [k_bias], [v_bias], [q_norm], [k_norm].
 * Without k_weight and v_weight, q_weight holds all rows packed (q, then k, then v), and so does
 * q_bias.
 * q_norm and k_norm [head_dim] normalise each head after the bias. */
#define BP_OP_QKV "qkv"
typedef struct bp_attr_qkv {
  uint32_t struct_size;
  uint32_t n_heads;
  uint64_t required;
  uint32_t n_kv_heads, head_dim, v_head_dim;
  uint32_t norm_kind; /* BP_NORM_* of q_norm and k_norm */
  float norm_eps;
  float norm_weight_offset;
} bp_attr_qkv;

/* rope: in q, [k]; out q, [k]; weights inv_freq F32 [n_dims/2].
 * Each head's first n_dims columns are rotated in pairs by the angle position * inv_freq[i], and
 * multiplied by magnitude. Every scaling rule (linear, YaRN, llama3, ...) is already in the table. */
#define BP_OP_ROPE "rope"
typedef struct bp_attr_rope {
  uint32_t struct_size;
  uint32_t pairing; /* BP_ROPE_* */
  uint64_t required;
  uint32_t n_heads, n_kv_heads, head_dim, n_dims;
  float magnitude; /* default 1 */
  uint32_t reserved;
} bp_attr_rope;

/* attention: in q, k, v; out o [T, n_heads*v_head_dim]; weights [sinks], [slopes], each [n_heads].
 * Writes k and v at the tokens' positions (if writes_kv), then attends to all positions of the same
 * sequence that causality and window allow. Query head h uses KV head h / (n_heads / n_kv_heads).
 * score = softcap((q.k + bias) * scale), bias = 0 without slopes, else that of position p by
 * slope_rounding; a sink adds exp(sink - max) to the denominator. slopes: from version 2 on. */
#define BP_OP_ATTENTION "attention"
typedef struct bp_attr_attention {
  uint32_t struct_size;
  uint32_t n_heads;
  uint64_t required;
  uint32_t n_kv_heads, head_dim, v_head_dim;
  uint32_t kv_slot;   /* index into the program's kv_slots */
  uint32_t writes_kv; /* 1, or 0 where another op filled the slot (k and v are then BP_NONE) */
  uint32_t causal;    /* 1: position p sees positions <= p */
  uint32_t window;    /* 0, or p sees only positions > p - window */
  float scale;
  float softcap; /* 0, or c: c * tanh(score / c) */
  uint32_t slope_rounding; /* BP_SLOPES_*; not 0: from version 2 on */
} bp_attr_attention;

/* gated_mlp: in x; out y; weights gate, [up], down, [gate_bias], [up_bias], [down_bias].
 * y = (activation(gate x) * up x) down. Without up, gate holds the gate rows, then the up rows. */
#define BP_OP_GATED_MLP "gated_mlp"
typedef struct bp_attr_gated_mlp {
  uint32_t struct_size;
  uint32_t activation; /* BP_ACT_* */
  uint64_t required;
} bp_attr_gated_mlp;

/* softcap: in x; out y = cap * tanh(x / cap). */
#define BP_OP_SOFTCAP "softcap"
typedef struct bp_attr_softcap {
  uint32_t struct_size;
  float cap;
  uint64_t required;
} bp_attr_softcap;

/* residual_scale: in x, residual; out y = residual + scale * x. */
#define BP_OP_RESIDUAL_SCALE "residual_scale"
typedef struct bp_attr_residual_scale {
  uint32_t struct_size;
  float scale;
  uint64_t required;
} bp_attr_residual_scale;

/* select_rows: in x [T, n]; out y: the rows that the batch asks of y's program output. No attributes.
 * A primitive too. */
#define BP_OP_SELECT_ROWS "select_rows"

/* lm_head: in x [R, dim]; out logits [R, n_vocab]; weights w [n_vocab, dim], [bias].
 * logits = softcap(scale * (x w^T + bias)). */
#define BP_OP_LM_HEAD "lm_head"
typedef struct bp_attr_lm_head {
  uint32_t struct_size;
  float scale; /* default 1 */
  uint64_t required;
  float softcap; /* 0: none */
  uint32_t reserved;
} bp_attr_lm_head;

/* moe: in x; out y; weights router [n_experts, n_in], [router_bias], [selection_bias] [n_experts],
 * gate [n_experts, n_ff, n_in], up, down [n_experts, n_out, n_ff], [gate_bias], [up_bias] [n_experts,
 * n_ff], [down_bias] [n_experts, n_out]. Each row's n_used experts by route; y sums their gated MLPs
 * times their shares. */
#define BP_OP_MOE "moe"
typedef struct bp_attr_moe {
  uint32_t struct_size;
  uint32_t activation; /* BP_ACT_* */
  uint64_t required;
  uint32_t scoring; /* BP_ROUTE_* */
  uint32_t n_used;
  uint32_t n_groups, n_groups_used, group_best; /* as in route */
  uint32_t normalise;
  float scale; /* default 1 */
  float limit; /* not 0: gate at most limit, up within +-limit; g * sigmoid(alpha * g) * (up + 1) */
  float alpha; /* default 1, with limit */
  uint32_t reserved;
} bp_attr_moe;

/* ---- primitives ---------------------------------------------------------------------------- */

/* gather: in ids; out y [T, dim]; weights table [n, dim]. No attributes. */
#define BP_OP_GATHER "gather"
/* matmul: in x [T, n_in]; out y [T, n_out]; weights w [n_out, n_in]. No attributes. */
#define BP_OP_MATMUL "matmul"
/* add: in a, [b]; out y = a + b, or a + w for each row; weights [w] [n], n divides the width and
 * repeats along it. No attributes. */
#define BP_OP_ADD "add"
/* multiply: in a, [b]; out y = a * b, or a * (w + weight_offset); weights [w] as in add. */
#define BP_OP_MULTIPLY "multiply"
typedef struct bp_attr_multiply {
  uint32_t struct_size;
  float weight_offset;
  uint64_t required;
} bp_attr_multiply;
/* scale: in x; out y = x * factor. */
#define BP_OP_SCALE "scale"
typedef struct bp_attr_scale {
  uint32_t struct_size;
  float factor;
  uint64_t required;
} bp_attr_scale;
/* normalize: in x; out y; each group of columns normalised, without weights. */
#define BP_OP_NORMALIZE "normalize"
typedef struct bp_attr_normalize {
  uint32_t struct_size;
  uint32_t kind; /* BP_NORM_* */
  uint64_t required;
  float eps;
  uint32_t group; /* 0: the whole row */
} bp_attr_normalize;
/* activate: in x; out y. */
#define BP_OP_ACTIVATE "activate"
typedef struct bp_attr_activate {
  uint32_t struct_size;
  uint32_t activation; /* BP_ACT_* */
  uint64_t required;
} bp_attr_activate;
/* rotate: in x [T, n_heads*head_dim]; out y; weights inv_freq. As rope, for one tensor. */
#define BP_OP_ROTATE "rotate"
typedef struct bp_attr_rotate {
  uint32_t struct_size;
  uint32_t pairing; /* BP_ROPE_* */
  uint64_t required;
  uint32_t n_heads, head_dim, n_dims;
  float magnitude; /* default 1 */
} bp_attr_rotate;
/* kv_write: in k, v; no outputs. Stores them at the tokens' positions. */
#define BP_OP_KV_WRITE "kv_write"
typedef struct bp_attr_kv_write {
  uint32_t struct_size;
  uint32_t kv_slot;
  uint64_t required;
} bp_attr_kv_write;
/* attend: in q; out o; weights [sinks], [slopes]. attention without the write; its attributes are
 * bp_attr_attention with writes_kv 0. */
#define BP_OP_ATTEND "attend"
/* slice: in x; out y [T, n]: columns [first, first + n). */
#define BP_OP_SLICE "slice"
typedef struct bp_attr_slice {
  uint32_t struct_size;
  uint32_t reserved;
  uint64_t required;
  uint64_t first;
  uint64_t n;
} bp_attr_slice;
/* slice_groups: in x; out y: columns [first, first + n) of each of n_groups equal parts. */
#define BP_OP_SLICE_GROUPS "slice_groups"
typedef struct bp_attr_slice_groups {
  uint32_t struct_size;
  uint32_t n_groups;
  uint64_t required;
  uint32_t first, n;
} bp_attr_slice_groups;
/* concat_groups: in a, b; out y: for each group a's part, then b's; b has n_groups parts or one. */
#define BP_OP_CONCAT_GROUPS "concat_groups"
typedef struct bp_attr_concat_groups {
  uint32_t struct_size;
  uint32_t n_groups;
  uint64_t required;
  uint32_t b_groups; /* n_groups, or 1: the same for all */
  uint32_t reserved;
} bp_attr_concat_groups;
/* clamp: in x; out y = min(max(x, low), high). */
#define BP_OP_CLAMP "clamp"
typedef struct bp_attr_clamp {
  uint32_t struct_size;
  float low;
  uint64_t required;
  float high;
  uint32_t reserved;
} bp_attr_clamp;
/* add_positions: in x; out y = x + table[position + offset]; weights table [n, dim]. */
#define BP_OP_ADD_POSITIONS "add_positions"
typedef struct bp_attr_add_positions {
  uint32_t struct_size;
  uint32_t offset;
  uint64_t required;
} bp_attr_add_positions;
/* route: in logits [N, n_experts]; out ids [N, n_used] as floats, shares [N, n_used]; weights [bias].
 * The n_used experts of the highest score + bias, the lower id first among equals. With n_groups,
 * only those of the n_groups_used groups whose group_best highest have the greatest sum. Their
 * scores, divided by their sum where normalise is not 0, times scale. */
#define BP_OP_ROUTE "route"
typedef struct bp_attr_route {
  uint32_t struct_size;
  uint32_t scoring; /* BP_ROUTE_* */
  uint64_t required;
  uint32_t n_used;
  uint32_t n_groups;      /* 0 or 1: none */
  uint32_t n_groups_used; /* of n_groups */
  uint32_t group_best;    /* default 1 */
  uint32_t normalise;
  float scale; /* default 1 */
} bp_attr_route;
/* group_matmul: in x [N, n_in] or [N, n_groups*n_in], [ids] [N, n_groups]; out y [N, n_groups*n_out];
 * weights w [n, n_out, n_in], [bias] [n, n_out]. Group g by w[ids[g]], ids cut to [0, n), or by w[g]. */
#define BP_OP_GROUP_MATMUL "group_matmul"
typedef struct bp_attr_group_matmul {
  uint32_t struct_size;
  uint32_t n_groups;
  uint64_t required;
} bp_attr_group_matmul;
/* group_sum: in x [N, n_groups*dim], shares [N, n_groups]; out y [N, dim]: groups times shares. */
#define BP_OP_GROUP_SUM "group_sum"
typedef struct bp_attr_group_sum {
  uint32_t struct_size;
  uint32_t n_groups;
  uint64_t required;
} bp_attr_group_sum;

/* short_conv: in x [T, width]; out y; weights w [width, kernel], [bias] [width].
 * y of token t = activation(sum over j of w[:, j] * x of token t - (kernel - 1) + j of its sequence +
 * bias). The state slot keeps the last kernel - 1 rows of x: width * (kernel - 1) floats. */
#define BP_OP_SHORT_CONV "short_conv"
typedef struct bp_attr_short_conv {
  uint32_t struct_size;
  uint32_t state_slot; /* index into the program's state_slots; no other op names it */
  uint64_t required;
  uint32_t kernel;     /* columns of w */
  uint32_t activation; /* BP_ACT_* */
} bp_attr_short_conv;
/* gated_delta: in qkv [T, 2*n_key_heads*key_dim + n_heads*value_dim] (q, k, v), a, b [T, n_heads];
 * out o [T, n_heads*value_dim]; weights decay, [dt_bias], each [n_heads]. For each token in order,
 * head h with q and k of key head h / (n_heads / n_key_heads), each divided by sqrt(|x|^2 + eps):
 * S *= exp(decay * ln(1 + exp(a + dt_bias))); S += k (v - S^T k)^T / (1 + exp(-b)); o = scale * S^T q.
 * The state slot keeps S of all heads: n_heads * key_dim * value_dim floats. */
#define BP_OP_GATED_DELTA "gated_delta"
typedef struct bp_attr_gated_delta {
  uint32_t struct_size;
  uint32_t state_slot; /* as in short_conv */
  uint64_t required;
  uint32_t n_heads, n_key_heads, key_dim, value_dim;
  float scale;
  float eps;
} bp_attr_gated_delta;

#ifdef __cplusplus
}
#endif
#endif /* BACKPLANE_OPS_H_ */
