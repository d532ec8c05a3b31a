#include "sdk/conformance/support/small_transformer.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "sdk/conformance/support/random_values.hpp"

namespace bp::conformance {

SmallTransformer::SmallTransformer(const TransformerShape& shape, const std::vector<OpSpec>& specs,
                                   const std::set<std::string>& inlined)
    : shape_(shape), writer_(builder_, specs, inlined) {
  const uint32_t global = builder_.add_kv_group();
  const uint32_t windowed = shape.window == 0 ? global : builder_.add_kv_group(shape.window);
  for (uint32_t layer = 0; layer < kLayers; ++layer) {
    builder_.add_kv_slot({layer == 1 ? windowed : global, kKvHeads, kHeadDim, kHeadDim});
  }
  add_embedding();
  for (uint32_t layer = 0; layer < kLayers; ++layer) {
    const std::string prefix = "layers." + std::to_string(layer) + ".";
    add_attention(prefix, layer, add_norm(prefix + "attention_norm"));
    add_mlp(prefix, add_norm(prefix + "mlp_norm"));
  }
  add_head();
}

uint32_t SmallTransformer::matrix(const std::string& name, uint64_t n_out, uint64_t n_in) {
  const float deviation = 1 / std::sqrt(static_cast<float>(n_in));
  const std::string seed = std::to_string(shape_.seed) + name;
  return builder_.add_weight(name, shape_.weights, {n_out, n_in},
                             normal_values(seed, n_out * n_in, deviation));
}

uint32_t SmallTransformer::vector(const std::string& name, uint64_t n, float mean) {
  std::vector<float> values = normal_values(std::to_string(shape_.seed) + name, n, 0.2f);
  for (float& value : values) value += mean;
  return builder_.add_weight(name, BP_DTYPE_F32, {n}, values);
}

void SmallTransformer::add_embedding() {
  std::vector<float> table =
      normal_values(std::to_string(shape_.seed) + "embedding", uint64_t{kVocab} * kDim);
  std::fill_n(table.begin() + uint64_t{kNanToken} * kDim, kDim,
              std::numeric_limits<float>::quiet_NaN());
  const uint32_t weight = builder_.add_weight("embedding", BP_DTYPE_F32, {kVocab, kDim}, table);
  x_ = builder_.add_value(kDim);
  bp_attr_embed attributes{};
  attributes.scale = 1;
  writer_.add("embed", BP_OP_EMBED, {{builder_.add_ids()}, {x_}, {weight}},
              ProgramBuilder::attributes(attributes));
  std::vector<float> frequencies;
  for (uint32_t i = 0; i < kHeadDim / 2; ++i) {
    frequencies.push_back(std::pow(10000.0f, -2.0f * static_cast<float>(i) / kHeadDim));
  }
  inv_freq_ = builder_.add_weight("inv_freq", BP_DTYPE_F32, {kHeadDim / 2}, frequencies);
}

// The norm of x_ plus what the last block added; x_ becomes the sum.
uint32_t SmallTransformer::add_norm(const std::string& name) {
  bp_attr_norm attributes{};
  attributes.eps = 1e-5f;
  const uint32_t y = builder_.add_value(kDim), weight = vector(name, kDim, 1);
  OpSlots slots{{x_}, {y}, {weight}};
  if (delta_ != BP_NONE) {
    const uint32_t sum = builder_.add_value(kDim);
    slots = {{delta_, x_}, {y, sum}, {weight}};
    x_ = sum;
  }
  writer_.add(name, BP_OP_NORM, slots, ProgramBuilder::attributes(attributes));
  return y;
}

void SmallTransformer::add_attention(const std::string& prefix, uint32_t layer, uint32_t x) {
  constexpr uint32_t q_width = kHeads * kHeadDim, kv_width = kKvHeads * kHeadDim;
  const auto value = [&](uint64_t width) { return builder_.add_value(width); };
  const uint32_t q = value(q_width), k = value(kv_width), v = value(kv_width);
  bp_attr_qkv qkv{};
  qkv.n_heads = kHeads, qkv.n_kv_heads = kKvHeads;
  qkv.head_dim = qkv.v_head_dim = kHeadDim;
  writer_.add(prefix + "qkv", BP_OP_QKV,
              {{x},
               {q, k, v},
               {matrix(prefix + "q", q_width, kDim), matrix(prefix + "k", kv_width, kDim),
                matrix(prefix + "v", kv_width, kDim), vector(prefix + "q_bias", q_width, 0),
                vector(prefix + "k_bias", kv_width, 0), vector(prefix + "v_bias", kv_width, 0)}},
              ProgramBuilder::attributes(qkv));
  bp_attr_rope rope{};
  rope.n_heads = kHeads, rope.n_kv_heads = kKvHeads;
  rope.head_dim = rope.n_dims = kHeadDim;
  rope.magnitude = 1;
  const uint32_t rotated_q = value(q_width), rotated_k = value(kv_width);
  writer_.add(prefix + "rope", BP_OP_ROPE, {{q, k}, {rotated_q, rotated_k}, {inv_freq_}},
              ProgramBuilder::attributes(rope));
  bp_attr_attention attention{};
  attention.n_heads = kHeads, attention.n_kv_heads = kKvHeads;
  attention.head_dim = attention.v_head_dim = kHeadDim;
  attention.kv_slot = layer;
  attention.writes_kv = attention.causal = 1;
  attention.window = layer == 1 ? shape_.window : 0;
  attention.scale = 1 / std::sqrt(static_cast<float>(kHeadDim));
  const uint32_t o = value(q_width);
  writer_.add(prefix + "attention", BP_OP_ATTENTION, {{rotated_q, rotated_k, v}, {o}, {}},
              ProgramBuilder::attributes(attention));
  delta_ = value(kDim);
  writer_.add(prefix + "attention_out", BP_OP_LINEAR,
              {{o}, {delta_}, {matrix(prefix + "o", kDim, q_width)}},
              ProgramBuilder::attributes(bp_attr_linear{}));
}

void SmallTransformer::add_mlp(const std::string& prefix, uint32_t x) {
  bp_attr_gated_mlp attributes{};
  attributes.activation = BP_ACT_SILU;
  delta_ = builder_.add_value(kDim);
  writer_.add(prefix + "mlp", BP_OP_GATED_MLP,
              {{x},
               {delta_},
               {matrix(prefix + "gate", kFf, kDim), matrix(prefix + "up", kFf, kDim),
                matrix(prefix + "down", kDim, kFf)}},
              ProgramBuilder::attributes(attributes));
}

void SmallTransformer::add_head() {
  const uint32_t normed = add_norm("output_norm");
  uint32_t x = normed;
  if (!shape_.all_rows) {
    x = builder_.add_value(kDim, BP_ROWS_OUTPUT, kLogits);
    writer_.add("select_rows", BP_OP_SELECT_ROWS, {{normed}, {x}, {}});
  }
  const bp_value rows = builder_.value(x);
  const uint32_t logits = builder_.add_value(kVocab, rows.rows, rows.output);
  bp_attr_lm_head attributes{};
  attributes.scale = 1;
  writer_.add("lm_head", BP_OP_LM_HEAD, {{x}, {logits}, {matrix("head", kVocab, kDim)}},
              ProgramBuilder::attributes(attributes));
  if (shape_.all_rows) {
    builder_.add_selected_output(logits);
  } else {
    builder_.add_output(logits);
  }
  builder_.add_selected_output(normed);
}

}  // namespace bp::conformance
