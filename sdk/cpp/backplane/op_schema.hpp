#pragma once
// Every op of backplane/ops.h as data: slots with symbolic shapes, and attribute fields with
// offset, type and default. The spec files ops/NAME.yaml say the same in words; a test keeps both
// equal.
//
// Shapes: N is any number of rows, T the tokens of the batch (the op needs their positions), R the
// rows that a program output asks for. Other symbols are widths; an attribute is a symbol by its
// name. `a | b` allows either; divisor(n) any divisor of n. Expressions are those of
// expression.hpp.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "backplane/dtype.h"
#include "backplane/ops.h"

namespace bp {

struct SlotSchema {
  std::string_view name;
  std::string_view shape;  // "N, dim", outermost first
  bool optional = false;
  bp_dtype dtype = BP_DTYPE_F32;  // NONE: any (weights)
  uint32_t since = 1;             // the op's version
};

enum class AttributeType : uint8_t { kU32, kU64, kF32, kEnum };

struct AttributeSchema {
  std::string_view name;
  AttributeType type;
  uint32_t offset;
  bool required = false;
  double default_value = 0;
  std::span<const std::string_view> enum_names = {};  // index is the value
  uint32_t since = 1;                                 // the op's version
};

struct OpSchema {
  std::string_view kind;
  bool composite;
  uint32_t version;           // highest known
  uint32_t attributes_bytes;  // 0: the kind has none
  std::span<const SlotSchema> inputs;
  std::span<const SlotSchema> outputs;
  std::span<const SlotSchema> weights;
  std::span<const AttributeSchema> attributes;
};

namespace op_schema {

inline constexpr std::string_view kActivations[] = {"none", "silu",  "gelu",    "gelu_tanh",
                                                    "relu", "relu2", "sigmoid", "tanh"};
inline constexpr std::string_view kNorms[] = {"rms", "layer"};
inline constexpr std::string_view kPairings[] = {"halves", "pairs"};

inline constexpr std::string_view kSlopeRoundings[] = {"none", "bf16"};

inline constexpr std::string_view kScorings[] = {"softmax", "selected", "sigmoid"};

inline constexpr bool kOptional = true;
inline constexpr bool kRequired = true;
inline constexpr bp_dtype kAny = BP_DTYPE_NONE;

#define BP_U32_(S, f, ...)                               \
  AttributeSchema {                                      \
#f, AttributeType::kU32, offsetof(S, f), __VA_ARGS__ \
  }
#define BP_U64_(S, f, ...)                               \
  AttributeSchema {                                      \
#f, AttributeType::kU64, offsetof(S, f), __VA_ARGS__ \
  }
#define BP_F32_(S, f, ...)                               \
  AttributeSchema {                                      \
#f, AttributeType::kF32, offsetof(S, f), __VA_ARGS__ \
  }
#define BP_ENUM_(S, f, ...)                                         \
  AttributeSchema {                                                 \
#f, AttributeType::kEnum, offsetof(S, f), false, 0, __VA_ARGS__ \
  }

inline constexpr SlotSchema kIds[] = {{"ids", "T, 1", false, BP_DTYPE_I32}};
inline constexpr SlotSchema kX[] = {{"x", "N, dim"}};
inline constexpr SlotSchema kY[] = {{"y", "N, dim"}};
inline constexpr SlotSchema kLinearX[] = {{"x", "N, n_in"}};
inline constexpr SlotSchema kLinearY[] = {{"y", "N, n_out"}};
inline constexpr SlotSchema kLinearW[] = {{"w", "n_out, n_in", false, kAny},
                                          {"bias", "n_out", kOptional, kAny}};
inline constexpr SlotSchema kTokenY[] = {{"y", "T, dim"}};

inline constexpr SlotSchema kEmbedW[] = {{"table", "n_vocab, dim", false, kAny}};
inline constexpr AttributeSchema kEmbedA[] = {BP_F32_(bp_attr_embed, scale, false, 1)};

inline constexpr SlotSchema kNormX[] = {{"x", "N, dim"}, {"residual", "N, dim", kOptional}};
inline constexpr SlotSchema kNormY[] = {{"y", "N, dim"}, {"sum", "N, dim", kOptional}};
inline constexpr SlotSchema kNormW[] = {{"weight", "dim | group", kOptional, kAny},
                                        {"bias", "dim | group", kOptional, kAny}};
inline constexpr AttributeSchema kNormA[] = {
    BP_ENUM_(bp_attr_norm, kind, kNorms), BP_F32_(bp_attr_norm, eps, kRequired),
    BP_F32_(bp_attr_norm, weight_offset), BP_U32_(bp_attr_norm, group)};

inline constexpr AttributeSchema kLinearA[] = {BP_ENUM_(bp_attr_linear, activation, kActivations)};

inline constexpr SlotSchema kQkvY[] = {{"q", "N, n_heads*head_dim"},
                                       {"k", "N, n_kv_heads*head_dim"},
                                       {"v", "N, n_kv_heads*v_head_dim"}};
inline constexpr SlotSchema kQkvW[] = {
    {"q_weight",
     "n_heads*head_dim if has(k_weight) else "
     "(n_heads + n_kv_heads)*head_dim + n_kv_heads*v_head_dim, n_in",
     false, kAny},
    {"k_weight", "n_kv_heads*head_dim, n_in", kOptional, kAny},
    {"v_weight", "n_kv_heads*v_head_dim, n_in", kOptional, kAny},
    {"q_bias",
     "n_heads*head_dim if has(k_weight) else "
     "(n_heads + n_kv_heads)*head_dim + n_kv_heads*v_head_dim",
     kOptional, kAny},
    {"k_bias", "n_kv_heads*head_dim", kOptional, kAny},
    {"v_bias", "n_kv_heads*v_head_dim", kOptional, kAny},
    {"q_norm", "head_dim", kOptional, kAny},
    {"k_norm", "head_dim", kOptional, kAny}};
inline constexpr AttributeSchema kQkvA[] = {
    BP_U32_(bp_attr_qkv, n_heads, kRequired),  BP_U32_(bp_attr_qkv, n_kv_heads, kRequired),
    BP_U32_(bp_attr_qkv, head_dim, kRequired), BP_U32_(bp_attr_qkv, v_head_dim, kRequired),
    BP_ENUM_(bp_attr_qkv, norm_kind, kNorms),  BP_F32_(bp_attr_qkv, norm_eps),
    BP_F32_(bp_attr_qkv, norm_weight_offset)};

inline constexpr SlotSchema kRopeX[] = {{"q", "T, n_heads*head_dim"},
                                        {"k", "T, n_kv_heads*head_dim", kOptional}};
inline constexpr SlotSchema kInvFreq[] = {{"inv_freq", "n_dims//2", false, BP_DTYPE_F32}};
inline constexpr AttributeSchema kRopeA[] = {
    BP_ENUM_(bp_attr_rope, pairing, kPairings), BP_U32_(bp_attr_rope, n_heads, kRequired),
    BP_U32_(bp_attr_rope, n_kv_heads),          BP_U32_(bp_attr_rope, head_dim, kRequired),
    BP_U32_(bp_attr_rope, n_dims, kRequired),   BP_F32_(bp_attr_rope, magnitude, false, 1)};

inline constexpr SlotSchema kAttentionX[] = {{"q", "T, n_heads*head_dim"},
                                             {"k", "T, n_kv_heads*head_dim", kOptional},
                                             {"v", "T, n_kv_heads*v_head_dim", kOptional}};
inline constexpr SlotSchema kAttendX[] = {{"q", "T, n_heads*head_dim"}};
inline constexpr SlotSchema kAttentionY[] = {{"o", "T, n_heads*v_head_dim"}};
inline constexpr SlotSchema kAttentionW[] = {{"sinks", "n_heads", kOptional, kAny},
                                             {"slopes", "n_heads", kOptional, kAny, 2}};
inline constexpr AttributeSchema kAttentionA[] = {
    BP_U32_(bp_attr_attention, n_heads, kRequired),
    BP_U32_(bp_attr_attention, n_kv_heads, kRequired),
    BP_U32_(bp_attr_attention, head_dim, kRequired),
    BP_U32_(bp_attr_attention, v_head_dim, kRequired),
    BP_U32_(bp_attr_attention, kv_slot, kRequired),
    BP_U32_(bp_attr_attention, writes_kv, false, 1),
    BP_U32_(bp_attr_attention, causal, false, 1),
    BP_U32_(bp_attr_attention, window),
    BP_F32_(bp_attr_attention, scale, kRequired),
    BP_F32_(bp_attr_attention, softcap),
    BP_ENUM_(bp_attr_attention, slope_rounding, kSlopeRoundings, 2)};
inline constexpr AttributeSchema kAttendA[] = {
    BP_U32_(bp_attr_attention, n_heads, kRequired),
    BP_U32_(bp_attr_attention, n_kv_heads, kRequired),
    BP_U32_(bp_attr_attention, head_dim, kRequired),
    BP_U32_(bp_attr_attention, v_head_dim, kRequired),
    BP_U32_(bp_attr_attention, kv_slot, kRequired),
    BP_U32_(bp_attr_attention, writes_kv),
    BP_U32_(bp_attr_attention, causal, false, 1),
    BP_U32_(bp_attr_attention, window),
    BP_F32_(bp_attr_attention, scale, kRequired),
    BP_F32_(bp_attr_attention, softcap),
    BP_ENUM_(bp_attr_attention, slope_rounding, kSlopeRoundings, 2)};

inline constexpr SlotSchema kMlpX[] = {{"x", "N, n_in"}};
inline constexpr SlotSchema kMlpY[] = {{"y", "N, n_out"}};
inline constexpr SlotSchema kMlpW[] = {
    {"gate", "n_ff if has(up) else 2*n_ff, n_in", false, kAny},
    {"up", "n_ff, n_in", kOptional, kAny},
    {"down", "n_out, n_ff", false, kAny},
    {"gate_bias", "n_ff if has(up) else 2*n_ff", kOptional, kAny},
    {"up_bias", "n_ff", kOptional, kAny},
    {"down_bias", "n_out", kOptional, kAny}};
inline constexpr AttributeSchema kMlpA[] = {BP_ENUM_(bp_attr_gated_mlp, activation, kActivations)};

inline constexpr AttributeSchema kSoftcapA[] = {BP_F32_(bp_attr_softcap, cap, kRequired)};

inline constexpr SlotSchema kResidualX[] = {{"x", "N, dim"}, {"residual", "N, dim"}};
inline constexpr AttributeSchema kResidualA[] = {BP_F32_(bp_attr_residual_scale, scale, kRequired)};

inline constexpr SlotSchema kSelectX[] = {{"x", "T, dim"}};
inline constexpr SlotSchema kSelectY[] = {{"y", "R, dim"}};

inline constexpr SlotSchema kHeadX[] = {{"x", "N, dim"}};
inline constexpr SlotSchema kHeadY[] = {{"logits", "N, n_vocab"}};
inline constexpr SlotSchema kHeadW[] = {{"w", "n_vocab, dim", false, kAny},
                                        {"bias", "n_vocab", kOptional, kAny}};
inline constexpr AttributeSchema kHeadA[] = {BP_F32_(bp_attr_lm_head, scale, false, 1),
                                             BP_F32_(bp_attr_lm_head, softcap)};

inline constexpr SlotSchema kMatmulW[] = {{"w", "n_out, n_in", false, kAny}};
inline constexpr SlotSchema kPairX[] = {{"a", "N, dim"}, {"b", "N, dim", kOptional}};
inline constexpr SlotSchema kPairW[] = {{"w", "divisor(dim)", kOptional, kAny}};
inline constexpr AttributeSchema kMultiplyA[] = {BP_F32_(bp_attr_multiply, weight_offset)};
inline constexpr AttributeSchema kScaleA[] = {BP_F32_(bp_attr_scale, factor, kRequired)};
inline constexpr AttributeSchema kNormalizeA[] = {BP_ENUM_(bp_attr_normalize, kind, kNorms),
                                                  BP_F32_(bp_attr_normalize, eps, kRequired),
                                                  BP_U32_(bp_attr_normalize, group)};
inline constexpr AttributeSchema kActivateA[] = {
    BP_ENUM_(bp_attr_activate, activation, kActivations)};
inline constexpr SlotSchema kRotateX[] = {{"x", "T, n_heads*head_dim"}};
inline constexpr SlotSchema kRotateY[] = {{"y", "T, n_heads*head_dim"}};
inline constexpr AttributeSchema kRotateA[] = {
    BP_ENUM_(bp_attr_rotate, pairing, kPairings), BP_U32_(bp_attr_rotate, n_heads, kRequired),
    BP_U32_(bp_attr_rotate, head_dim, kRequired), BP_U32_(bp_attr_rotate, n_dims, kRequired),
    BP_F32_(bp_attr_rotate, magnitude, false, 1)};
inline constexpr SlotSchema kKvWriteX[] = {{"k", "T, k_width"}, {"v", "T, v_width"}};
inline constexpr AttributeSchema kKvWriteA[] = {BP_U32_(bp_attr_kv_write, kv_slot, kRequired)};
inline constexpr SlotSchema kSliceX[] = {{"x", "N, dim"}};
inline constexpr SlotSchema kSliceY[] = {{"y", "N, n"}};
inline constexpr AttributeSchema kSliceA[] = {BP_U64_(bp_attr_slice, first),
                                              BP_U64_(bp_attr_slice, n, kRequired)};

inline constexpr SlotSchema kMoeW[] = {{"router", "n_experts, n_in", false, kAny},
                                       {"router_bias", "n_experts", kOptional, kAny},
                                       {"selection_bias", "n_experts", kOptional, kAny},
                                       {"gate", "n_experts, n_ff, n_in", false, kAny},
                                       {"up", "n_experts, n_ff, n_in", false, kAny},
                                       {"down", "n_experts, n_out, n_ff", false, kAny},
                                       {"gate_bias", "n_experts, n_ff", kOptional, kAny},
                                       {"up_bias", "n_experts, n_ff", kOptional, kAny},
                                       {"down_bias", "n_experts, n_out", kOptional, kAny}};
inline constexpr AttributeSchema kMoeA[] = {BP_ENUM_(bp_attr_moe, activation, kActivations),
                                            BP_ENUM_(bp_attr_moe, scoring, kScorings),
                                            BP_U32_(bp_attr_moe, n_used, kRequired),
                                            BP_U32_(bp_attr_moe, n_groups),
                                            BP_U32_(bp_attr_moe, n_groups_used),
                                            BP_U32_(bp_attr_moe, group_best, false, 1),
                                            BP_U32_(bp_attr_moe, normalise),
                                            BP_F32_(bp_attr_moe, scale, false, 1),
                                            BP_F32_(bp_attr_moe, limit),
                                            BP_F32_(bp_attr_moe, alpha, false, 1)};

inline constexpr SlotSchema kSliceGroupsY[] = {{"y", "N, n_groups*n"}};
inline constexpr AttributeSchema kSliceGroupsA[] = {
    BP_U32_(bp_attr_slice_groups, n_groups, kRequired), BP_U32_(bp_attr_slice_groups, first),
    BP_U32_(bp_attr_slice_groups, n, kRequired)};
inline constexpr SlotSchema kConcatX[] = {{"a", "N, a_width"}, {"b", "N, b_width"}};
inline constexpr SlotSchema kConcatY[] = {{"y", "N, a_width + n_groups//b_groups*b_width"}};
inline constexpr AttributeSchema kConcatA[] = {BP_U32_(bp_attr_concat_groups, n_groups, kRequired),
                                               BP_U32_(bp_attr_concat_groups, b_groups, kRequired)};
inline constexpr AttributeSchema kClampA[] = {BP_F32_(bp_attr_clamp, low, kRequired),
                                              BP_F32_(bp_attr_clamp, high, kRequired)};
inline constexpr SlotSchema kPositionsX[] = {{"x", "T, dim"}};
inline constexpr SlotSchema kPositionsW[] = {{"table", "n_positions, dim", false, kAny}};
inline constexpr AttributeSchema kPositionsA[] = {BP_U32_(bp_attr_add_positions, offset)};
inline constexpr SlotSchema kRouteX[] = {{"logits", "N, n_experts"}};
inline constexpr SlotSchema kRouteY[] = {{"ids", "N, n_used"}, {"shares", "N, n_used"}};
inline constexpr SlotSchema kRouteW[] = {{"bias", "n_experts", kOptional, kAny}};
inline constexpr AttributeSchema kRouteA[] = {BP_ENUM_(bp_attr_route, scoring, kScorings),
                                              BP_U32_(bp_attr_route, n_used, kRequired),
                                              BP_U32_(bp_attr_route, n_groups),
                                              BP_U32_(bp_attr_route, n_groups_used),
                                              BP_U32_(bp_attr_route, group_best, false, 1),
                                              BP_U32_(bp_attr_route, normalise),
                                              BP_F32_(bp_attr_route, scale, false, 1)};
inline constexpr SlotSchema kGroupMatmulX[] = {{"x", "N, n_in | n_groups*n_in"},
                                               {"ids", "N, n_groups", kOptional}};
inline constexpr SlotSchema kGroupMatmulY[] = {{"y", "N, n_groups*n_out"}};
inline constexpr SlotSchema kGroupMatmulW[] = {{"w", "n_matrices, n_out, n_in", false, kAny},
                                               {"bias", "n_matrices, n_out", kOptional, kAny}};
inline constexpr AttributeSchema kGroupMatmulA[] = {
    BP_U32_(bp_attr_group_matmul, n_groups, kRequired)};
inline constexpr SlotSchema kGroupSumX[] = {{"x", "N, width"}, {"shares", "N, n_groups"}};
inline constexpr SlotSchema kGroupSumY[] = {{"y", "N, width//n_groups"}};
inline constexpr AttributeSchema kGroupSumA[] = {BP_U32_(bp_attr_group_sum, n_groups, kRequired)};

inline constexpr SlotSchema kConvX[] = {{"x", "T, width"}};
inline constexpr SlotSchema kConvY[] = {{"y", "T, width"}};
inline constexpr SlotSchema kConvW[] = {{"w", "width, kernel", false, kAny},
                                        {"bias", "width", kOptional, kAny}};
inline constexpr AttributeSchema kConvA[] = {
    BP_U32_(bp_attr_short_conv, state_slot, kRequired),
    BP_U32_(bp_attr_short_conv, kernel, kRequired),
    BP_ENUM_(bp_attr_short_conv, activation, kActivations)};
inline constexpr SlotSchema kDeltaX[] = {{"qkv", "T, 2*n_key_heads*key_dim + n_heads*value_dim"},
                                         {"a", "T, n_heads"},
                                         {"b", "T, n_heads"}};
inline constexpr SlotSchema kDeltaY[] = {{"o", "T, n_heads*value_dim"}};
inline constexpr SlotSchema kDeltaW[] = {{"decay", "n_heads", false, kAny},
                                         {"dt_bias", "n_heads", kOptional, kAny}};
inline constexpr AttributeSchema kDeltaA[] = {BP_U32_(bp_attr_gated_delta, state_slot, kRequired),
                                              BP_U32_(bp_attr_gated_delta, n_heads, kRequired),
                                              BP_U32_(bp_attr_gated_delta, n_key_heads, kRequired),
                                              BP_U32_(bp_attr_gated_delta, key_dim, kRequired),
                                              BP_U32_(bp_attr_gated_delta, value_dim, kRequired),
                                              BP_F32_(bp_attr_gated_delta, scale, kRequired),
                                              BP_F32_(bp_attr_gated_delta, eps, kRequired)};

#undef BP_U32_
#undef BP_U64_
#undef BP_F32_
#undef BP_ENUM_

inline constexpr OpSchema kOps[] = {
    {BP_OP_EMBED, true, 1, sizeof(bp_attr_embed), kIds, kTokenY, kEmbedW, kEmbedA},
    {BP_OP_NORM, true, 1, sizeof(bp_attr_norm), kNormX, kNormY, kNormW, kNormA},
    {BP_OP_LINEAR, true, 1, sizeof(bp_attr_linear), kLinearX, kLinearY, kLinearW, kLinearA},
    {BP_OP_QKV, true, 1, sizeof(bp_attr_qkv), kLinearX, kQkvY, kQkvW, kQkvA},
    {BP_OP_ROPE, true, 1, sizeof(bp_attr_rope), kRopeX, kRopeX, kInvFreq, kRopeA},
    {BP_OP_ATTENTION, true, 2, sizeof(bp_attr_attention), kAttentionX, kAttentionY, kAttentionW,
     kAttentionA},
    {BP_OP_GATED_MLP, true, 1, sizeof(bp_attr_gated_mlp), kMlpX, kMlpY, kMlpW, kMlpA},
    {BP_OP_SOFTCAP, true, 1, sizeof(bp_attr_softcap), kX, kY, {}, kSoftcapA},
    {BP_OP_RESIDUAL_SCALE, true, 1, sizeof(bp_attr_residual_scale), kResidualX, kY, {}, kResidualA},
    {BP_OP_LM_HEAD, true, 1, sizeof(bp_attr_lm_head), kHeadX, kHeadY, kHeadW, kHeadA},
    {BP_OP_MOE, true, 1, sizeof(bp_attr_moe), kMlpX, kMlpY, kMoeW, kMoeA},
    {BP_OP_SELECT_ROWS, false, 1, 0, kSelectX, kSelectY, {}, {}},
    {BP_OP_GATHER, false, 1, 0, kIds, kTokenY, kEmbedW, {}},
    {BP_OP_MATMUL, false, 1, 0, kLinearX, kLinearY, kMatmulW, {}},
    {BP_OP_ADD, false, 1, 0, kPairX, kY, kPairW, {}},
    {BP_OP_MULTIPLY, false, 1, sizeof(bp_attr_multiply), kPairX, kY, kPairW, kMultiplyA},
    {BP_OP_SCALE, false, 1, sizeof(bp_attr_scale), kX, kY, {}, kScaleA},
    {BP_OP_NORMALIZE, false, 1, sizeof(bp_attr_normalize), kX, kY, {}, kNormalizeA},
    {BP_OP_ACTIVATE, false, 1, sizeof(bp_attr_activate), kX, kY, {}, kActivateA},
    {BP_OP_ROTATE, false, 1, sizeof(bp_attr_rotate), kRotateX, kRotateY, kInvFreq, kRotateA},
    {BP_OP_KV_WRITE, false, 1, sizeof(bp_attr_kv_write), kKvWriteX, {}, {}, kKvWriteA},
    {BP_OP_ATTEND, false, 2, sizeof(bp_attr_attention), kAttendX, kAttentionY, kAttentionW,
     kAttendA},
    {BP_OP_SLICE, false, 1, sizeof(bp_attr_slice), kSliceX, kSliceY, {}, kSliceA},
    {BP_OP_SLICE_GROUPS,
     false,
     1,
     sizeof(bp_attr_slice_groups),
     kSliceX,
     kSliceGroupsY,
     {},
     kSliceGroupsA},
    {BP_OP_CONCAT_GROUPS,
     false,
     1,
     sizeof(bp_attr_concat_groups),
     kConcatX,
     kConcatY,
     {},
     kConcatA},
    {BP_OP_CLAMP, false, 1, sizeof(bp_attr_clamp), kX, kY, {}, kClampA},
    {BP_OP_ADD_POSITIONS, false, 1, sizeof(bp_attr_add_positions), kPositionsX, kTokenY,
     kPositionsW, kPositionsA},
    {BP_OP_ROUTE, false, 1, sizeof(bp_attr_route), kRouteX, kRouteY, kRouteW, kRouteA},
    {BP_OP_GROUP_MATMUL, false, 1, sizeof(bp_attr_group_matmul), kGroupMatmulX, kGroupMatmulY,
     kGroupMatmulW, kGroupMatmulA},
    {BP_OP_GROUP_SUM, false, 1, sizeof(bp_attr_group_sum), kGroupSumX, kGroupSumY, {}, kGroupSumA},
    {BP_OP_SHORT_CONV, false, 1, sizeof(bp_attr_short_conv), kConvX, kConvY, kConvW, kConvA},
    {BP_OP_GATED_DELTA, false, 1, sizeof(bp_attr_gated_delta), kDeltaX, kDeltaY, kDeltaW, kDeltaA},
};

}  // namespace op_schema

[[nodiscard]] constexpr std::span<const OpSchema> all_op_schemas() {
  return op_schema::kOps;
}

// nullptr for an unknown kind.
[[nodiscard]] constexpr const OpSchema* find_op_schema(std::string_view kind) {
  for (const OpSchema& schema : op_schema::kOps) {
    if (schema.kind == kind) return &schema;
  }
  return nullptr;
}

// BP_NONE for an unknown name.
[[nodiscard]] constexpr uint32_t find_slot(std::span<const SlotSchema> slots,
                                           std::string_view name) {
  for (uint32_t i = 0; i < slots.size(); ++i) {
    if (slots[i].name == name) return i;
  }
  return BP_NONE;
}

// nullptr for an unknown name.
[[nodiscard]] constexpr const AttributeSchema* find_attribute(const OpSchema& schema,
                                                              std::string_view name) {
  for (const AttributeSchema& attribute : schema.attributes) {
    if (attribute.name == name) return &attribute;
  }
  return nullptr;
}

}  // namespace bp
