#pragma once
// A llama of two layers with random weights, small enough to run thousands of steps of in a test.

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "sdk/conformance/support/ops/op_writer.hpp"
#include "sdk/conformance/support/program_builder.hpp"
#include "sdk/conformance/support/random_values.hpp"

namespace bp::conformance {

class TinyLlama {
 public:
  static constexpr uint32_t kLayers = 2, kDim = 32, kHeads = 4, kKvHeads = 2, kHeadDim = 8,
                            kFf = 64, kVocab = 40;

  // Composites of the kinds `inlined` are replaced by the bodies of their specs. n_ff: columns of
  // the MLP's intermediate.
  explicit TinyLlama(bp_dtype dtype = BP_DTYPE_F32, uint32_t window = 0,
                     const std::vector<OpSpec>& specs = kNoSpecs,
                     std::set<std::string> inlined = {}, uint32_t n_ff = kFf,
                     uint32_t head_dim = kHeadDim)
      : dtype_(dtype),
        window_(window),
        n_ff_(n_ff),
        head_dim_(head_dim),
        writer_(builder_, specs, std::move(inlined)) {
    const uint32_t group = builder_.add_kv_group(window);
    for (uint32_t i = 0; i < kLayers; ++i)
      builder_.add_kv_slot({group, kKvHeads, head_dim, head_dim});
    add_prologue();
    for (uint32_t i = 0; i < kLayers; ++i) add_layer(i);
    add_epilogue();
  }

  [[nodiscard]] const bp_program& program() { return builder_.build(); }
  [[nodiscard]] ProgramBuilder& builder() { return builder_; }

 private:
  static inline const std::vector<OpSpec> kNoSpecs;

  void add(const std::string& kind, std::vector<uint32_t> inputs, std::vector<uint32_t> outputs,
           std::vector<uint32_t> weights = {}, const AttributeBuffer& attributes = {}) {
    writer_.add("op." + std::to_string(n_ops_++), kind,
                {std::move(inputs), std::move(outputs), std::move(weights)}, attributes);
  }
  uint32_t matrix(const std::string& name, uint64_t n_out, uint64_t n_in) {
    const float deviation = 1 / std::sqrt(static_cast<float>(n_in));
    return builder_.add_weight(name, dtype_, {n_out, n_in},
                               normal_values(name, n_out * n_in, deviation));
  }
  uint32_t norm_weight(const std::string& name) {
    std::vector<float> values = normal_values(name, kDim, 0.1f);
    for (float& value : values) value += 1;
    return builder_.add_weight(name, BP_DTYPE_F32, {kDim}, values);
  }

  void add_prologue() {
    x_ = builder_.add_value(kDim);
    table_ = matrix("embedding", kVocab, kDim);
    add(BP_OP_EMBED, {builder_.add_ids()}, {x_}, {table_});
    std::vector<float> frequencies;
    for (uint32_t i = 0; i < head_dim_ / 2; ++i) {
      frequencies.push_back(
          std::pow(10000.0f, -2.0f * static_cast<float>(i) / static_cast<float>(head_dim_)));
    }
    inv_freq_ = builder_.add_weight("inv_freq", BP_DTYPE_F32, {head_dim_ / 2}, frequencies);
  }

  // The norm of x_ plus what the last block added; x_ becomes the sum.
  uint32_t add_norm(const std::string& weight) {
    bp_attr_norm attributes{};
    attributes.eps = 1e-5f;
    const uint32_t y = builder_.add_value(kDim);
    const uint32_t w = norm_weight(weight);
    const AttributeBuffer buffer = ProgramBuilder::attributes(attributes);
    if (delta_ == BP_NONE) {
      add(BP_OP_NORM, {x_}, {y}, {w}, buffer);
    } else {
      const uint32_t sum = builder_.add_value(kDim);
      add(BP_OP_NORM, {delta_, x_}, {y, sum}, {w}, buffer);
      x_ = sum;
    }
    return y;
  }

  void add_layer(uint32_t layer) {
    const std::string prefix = "layers." + std::to_string(layer) + ".";
    add_attention(prefix, layer, add_norm(prefix + "attention_norm"));
    add_mlp(prefix, add_norm(prefix + "mlp_norm"));
  }

  void add_attention(const std::string& prefix, uint32_t slot, uint32_t x) {
    const uint32_t q_width = kHeads * head_dim_, kv_width = kKvHeads * head_dim_;
    const uint32_t q = builder_.add_value(q_width), k = builder_.add_value(kv_width),
                   v = builder_.add_value(kv_width);
    bp_attr_qkv qkv{};
    qkv.n_heads = kHeads, qkv.n_kv_heads = kKvHeads;
    qkv.head_dim = qkv.v_head_dim = head_dim_;
    add(BP_OP_QKV, {x}, {q, k, v},
        {matrix(prefix + "q", q_width, kDim), matrix(prefix + "k", kv_width, kDim),
         matrix(prefix + "v", kv_width, kDim)},
        ProgramBuilder::attributes(qkv));
    bp_attr_rope rope{};
    rope.n_heads = kHeads, rope.n_kv_heads = kKvHeads;
    rope.head_dim = rope.n_dims = head_dim_;
    rope.magnitude = 1;
    const uint32_t rotated_q = builder_.add_value(q_width),
                   rotated_k = builder_.add_value(kv_width);
    add(BP_OP_ROPE, {q, k}, {rotated_q, rotated_k}, {inv_freq_}, ProgramBuilder::attributes(rope));
    bp_attr_attention attention{};
    attention.n_heads = kHeads, attention.n_kv_heads = kKvHeads;
    attention.head_dim = attention.v_head_dim = head_dim_;
    attention.kv_slot = slot;
    attention.writes_kv = attention.causal = 1;
    attention.window = window_;
    attention.scale = 1 / std::sqrt(static_cast<float>(head_dim_));
    const uint32_t o = builder_.add_value(q_width);
    add(BP_OP_ATTENTION, {rotated_q, rotated_k, v}, {o}, {}, ProgramBuilder::attributes(attention));
    delta_ = builder_.add_value(kDim);
    add(BP_OP_LINEAR, {o}, {delta_}, {matrix(prefix + "o", kDim, q_width)});
  }

  void add_mlp(const std::string& prefix, uint32_t x) {
    bp_attr_gated_mlp attributes{};
    attributes.activation = BP_ACT_SILU;
    delta_ = builder_.add_value(kDim);
    add(BP_OP_GATED_MLP, {x}, {delta_},
        {matrix(prefix + "gate", n_ff_, kDim), matrix(prefix + "up", n_ff_, kDim),
         matrix(prefix + "down", kDim, n_ff_)},
        ProgramBuilder::attributes(attributes));
  }

  void add_epilogue() {
    const uint32_t normed = add_norm("output_norm");
    const uint32_t selected = builder_.add_value(kDim, BP_ROWS_OUTPUT, 0);
    add(BP_OP_SELECT_ROWS, {normed}, {selected});
    const uint32_t logits = builder_.add_value(kVocab, BP_ROWS_OUTPUT, 0);
    add(BP_OP_LM_HEAD, {selected}, {logits}, {table_});
    builder_.add_output(logits);
  }

  bp_dtype dtype_;
  uint32_t window_;
  uint32_t n_ff_, head_dim_;
  ProgramBuilder builder_;
  OpWriter writer_;
  uint32_t n_ops_ = 0;
  uint32_t x_ = BP_NONE, delta_ = BP_NONE, table_ = BP_NONE, inv_freq_ = BP_NONE;
};

}  // namespace bp::conformance
