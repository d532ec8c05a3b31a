#include "bench/cuda/shapes.hpp"

#include <cmath>
#include <cstring>
#include <map>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "backplane/dtype.hpp"
#include "backplane/half.hpp"
#include "backplane/ops.h"

namespace bp::bench {

namespace {

using conformance::ProgramBuilder;

constexpr Shape kShapes[] = {
    {"8b", 4096, 32, 32, 8, 128, 14336, 128256},
    {"1b", 2048, 16, 32, 8, 64, 8192, 128256},
    {"tiny", 256, 2, 4, 2, 64, 256, 256},
    {"moe", 2048, 48, 32, 4, 128, 768, 151936, 128, 8},
    {"tiny-moe", 256, 2, 4, 2, 64, 256, 256, 8, 2},
};
constexpr uint32_t kDistinctLayers = 4;

// Where the f16 scales of a block lie, so that random bytes become numbers of a weight's size.
std::vector<uint32_t> scale_offsets(bp_dtype dtype) {
  switch (dtype) {
    case BP_DTYPE_Q4_0:
    case BP_DTYPE_Q5_0:
    case BP_DTYPE_Q8_0:
      return {0};
    case BP_DTYPE_Q4_K:
    case BP_DTYPE_Q5_K:
      return {0, 2};
    case BP_DTYPE_Q6_K:
      return {208};
    default:
      throw std::runtime_error("no random weights of " + std::string(dtype_name(dtype)));
  }
}

class Random {
 public:
  uint64_t next() {
    state_ ^= state_ << 13, state_ ^= state_ >> 7, state_ ^= state_ << 17;
    return state_;
  }
  // Within +-0.03.
  float small() { return (static_cast<float>(next() >> 40) / (1 << 23) - 1) * 0.03f; }

 private:
  uint64_t state_ = 0x9e3779b97f4a7c15u;
};

std::vector<uint8_t> random_matrix(bp_dtype dtype, uint64_t n, Random& random) {
  std::vector<uint8_t> bytes(row_bytes(dtype, n));
  if (dtype == BP_DTYPE_BF16 || dtype == BP_DTYPE_F16) {
    for (size_t i = 0; i < bytes.size(); i += 2) {
      const float x = random.small();
      const uint16_t bits = dtype == BP_DTYPE_BF16 ? f32_to_bf16(x) : f32_to_f16(x);
      std::memcpy(&bytes[i], &bits, 2);
    }
    return bytes;
  }
  if (dtype == BP_DTYPE_F32) {
    for (size_t i = 0; i < bytes.size(); i += 4) {
      const float x = random.small();
      std::memcpy(&bytes[i], &x, 4);
    }
    return bytes;
  }
  if (dtype == BP_DTYPE_F8_E4M3) {
    for (uint8_t& byte : bytes) byte = f32_to_f8_e4m3(random.small());
    return bytes;
  }
  for (size_t i = 0; i + 8 <= bytes.size(); i += 8) {
    const uint64_t word = random.next();
    std::memcpy(&bytes[i], &word, 8);
  }
  const uint16_t scale = f32_to_f16(0.0002f);
  for (size_t at = 0; at < bytes.size(); at += dtype_info(dtype).block_bytes) {
    for (const uint32_t offset : scale_offsets(dtype)) std::memcpy(&bytes[at + offset], &scale, 2);
  }
  return bytes;
}

// As llama.cpp spends more bits: the first and last eighth of the layers, and every third between.
bool has_more_bits(uint32_t layer, uint32_t n_layers) {
  const uint32_t eighth = n_layers / 8;
  return layer < eighth || layer >= 7 * n_layers / 8 || (layer - eighth) % 3 == 2;
}

class Model {
 public:
  Model(const Shape& shape, const Mix& mix, ProgramBuilder& builder)
      : s_(shape), mix_(mix), b_(builder) {}

  void build() {
    const uint32_t group = b_.add_kv_group();
    for (uint32_t i = 0; i < s_.n_layers; ++i) {
      b_.add_kv_slot({group, s_.n_kv_heads, s_.head_dim, s_.head_dim});
    }
    norm_weight_ = b_.add_weight("norm", BP_DTYPE_F32, {s_.dim}, std::vector<float>(s_.dim, 1));
    std::vector<float> frequencies;
    for (uint32_t i = 0; i < s_.head_dim / 2; ++i) {
      frequencies.push_back(
          std::pow(500000.0f, -2.0f * static_cast<float>(i) / static_cast<float>(s_.head_dim)));
    }
    inv_freq_ = b_.add_weight("inv_freq", BP_DTYPE_F32, {s_.head_dim / 2}, frequencies);
    const uint32_t table = matrix("embedding", 0, mix_.head, {s_.n_vocab, s_.dim});
    x_ = b_.add_value(s_.dim);
    bp_attr_embed embed{};
    embed.scale = 1;
    b_.add_op(BP_OP_EMBED, {b_.add_ids()}, {x_}, {table}, ProgramBuilder::attributes(embed));
    for (uint32_t i = 0; i < s_.n_layers; ++i) add_layer(i);
    const uint32_t normed = add_norm(), selected = b_.add_value(s_.dim, BP_ROWS_OUTPUT, 0);
    b_.add_op(BP_OP_SELECT_ROWS, {normed}, {selected});
    const uint32_t logits = b_.add_value(s_.n_vocab, BP_ROWS_OUTPUT, 0);
    bp_attr_lm_head head{};
    head.scale = 1;
    b_.add_op(BP_OP_LM_HEAD, {selected}, {logits}, {table}, ProgramBuilder::attributes(head));
    b_.add_output(logits);
  }

 private:
  using Dims = std::vector<uint64_t>;

  // One for all layers of a set and type.
  uint32_t matrix(const char* name, uint32_t layer, bp_dtype dtype, const Dims& dims) {
    const auto key = std::make_tuple(std::string(name), layer % kDistinctLayers, dtype);
    const auto found = matrices_.find(key);
    if (found != matrices_.end()) return found->second;
    uint64_t n = 1;
    for (const uint64_t d : dims) n *= d;
    return matrices_[key] =
               b_.add_encoded_weight(name, dtype, dims, random_matrix(dtype, n, random_));
  }
  [[nodiscard]] bp_dtype more(uint32_t layer) const {
    return has_more_bits(layer, s_.n_layers) ? mix_.more : mix_.most;
  }

  // The norm of x_ plus what the last block added; x_ becomes the sum.
  uint32_t add_norm() {
    bp_attr_norm a{};
    a.eps = 1e-5f;
    const uint32_t y = b_.add_value(s_.dim);
    if (delta_ == BP_NONE) {
      b_.add_op(BP_OP_NORM, {x_}, {y}, {norm_weight_}, ProgramBuilder::attributes(a));
      return y;
    }
    const uint32_t sum = b_.add_value(s_.dim);
    b_.add_op(BP_OP_NORM, {delta_, x_}, {y, sum}, {norm_weight_}, ProgramBuilder::attributes(a));
    x_ = sum;
    return y;
  }

  void add_layer(uint32_t layer) {
    const uint32_t attended = add_attention(layer, add_norm());
    delta_ = b_.add_value(s_.dim);
    const uint32_t o = matrix("o", layer, mix_.most, {s_.dim, uint64_t{s_.n_heads} * s_.head_dim});
    b_.add_op(BP_OP_LINEAR, {attended}, {delta_}, {o},
              ProgramBuilder::attributes(bp_attr_linear{}));
    const uint32_t y = add_norm();
    delta_ = b_.add_value(s_.dim);
    if (s_.n_experts == 0) {
      add_mlp(layer, y);
    } else {
      add_experts(layer, y);
    }
  }

  uint32_t add_attention(uint32_t layer, uint32_t x) {
    const uint32_t q_width = s_.n_heads * s_.head_dim, kv_width = s_.n_kv_heads * s_.head_dim;
    const uint32_t q = b_.add_value(q_width), k = b_.add_value(kv_width),
                   v = b_.add_value(kv_width);
    bp_attr_qkv qkv{};
    qkv.n_heads = s_.n_heads, qkv.n_kv_heads = s_.n_kv_heads;
    qkv.head_dim = qkv.v_head_dim = s_.head_dim;
    b_.add_op(BP_OP_QKV, {x}, {q, k, v},
              {matrix("q", layer, mix_.most, {q_width, s_.dim}),
               matrix("k", layer, mix_.most, {kv_width, s_.dim}),
               matrix("v", layer, more(layer), {kv_width, s_.dim})},
              ProgramBuilder::attributes(qkv));
    bp_attr_rope rope{};
    rope.n_heads = s_.n_heads, rope.n_kv_heads = s_.n_kv_heads;
    rope.head_dim = rope.n_dims = s_.head_dim;
    rope.magnitude = 1;
    const uint32_t turned_q = b_.add_value(q_width), turned_k = b_.add_value(kv_width);
    b_.add_op(BP_OP_ROPE, {q, k}, {turned_q, turned_k}, {inv_freq_},
              ProgramBuilder::attributes(rope));
    bp_attr_attention a{};
    a.n_heads = s_.n_heads, a.n_kv_heads = s_.n_kv_heads;
    a.head_dim = a.v_head_dim = s_.head_dim;
    a.kv_slot = layer;
    a.writes_kv = a.causal = 1;
    a.scale = 1 / std::sqrt(static_cast<float>(s_.head_dim));
    const uint32_t y = b_.add_value(q_width);
    b_.add_op(BP_OP_ATTENTION, {turned_q, turned_k, v}, {y}, {}, ProgramBuilder::attributes(a));
    return y;
  }

  void add_mlp(uint32_t layer, uint32_t x) {
    bp_attr_gated_mlp mlp{};
    mlp.activation = BP_ACT_SILU;
    b_.add_op(BP_OP_GATED_MLP, {x}, {delta_},
              {matrix("gate", layer, mix_.most, {s_.n_ff, s_.dim}),
               matrix("up", layer, mix_.most, {s_.n_ff, s_.dim}),
               matrix("down", layer, more(layer), {s_.dim, s_.n_ff})},
              ProgramBuilder::attributes(mlp));
  }

  void add_experts(uint32_t layer, uint32_t x) {
    bp_attr_moe moe{};
    moe.activation = BP_ACT_SILU;
    moe.n_used = s_.n_used;
    moe.normalise = 1;
    moe.scale = moe.alpha = 1;
    const uint64_t n = s_.n_experts;
    b_.add_op(BP_OP_MOE, {x}, {delta_},
              {matrix("router", layer, BP_DTYPE_F32, {n, s_.dim}), BP_NONE, BP_NONE,
               matrix("experts_gate", layer, mix_.most, {n, s_.n_ff, s_.dim}),
               matrix("experts_up", layer, mix_.most, {n, s_.n_ff, s_.dim}),
               matrix("experts_down", layer, more(layer), {n, s_.dim, s_.n_ff}), BP_NONE, BP_NONE,
               BP_NONE},
              ProgramBuilder::attributes(moe));
  }

  const Shape& s_;
  const Mix& mix_;
  ProgramBuilder& b_;
  Random random_;
  std::map<std::tuple<std::string, uint32_t, bp_dtype>, uint32_t> matrices_;
  uint32_t x_ = BP_NONE, delta_ = BP_NONE, norm_weight_ = BP_NONE, inv_freq_ = BP_NONE;
};

}  // namespace

void build_products(uint32_t n_in, uint32_t n_out, uint32_t n_products, bp_dtype dtype,
                    conformance::ProgramBuilder& builder) {
  Random random;
  std::vector<float> rows(16 * size_t{n_in});
  for (float& x : rows) x = random.small();
  const uint32_t table = builder.add_weight("rows", BP_DTYPE_F32, {16, n_in}, rows);
  const uint32_t x = builder.add_value(n_in);
  bp_attr_embed embed{};
  embed.scale = 1;
  builder.add_op(BP_OP_EMBED, {builder.add_ids()}, {x}, {table}, ProgramBuilder::attributes(embed));
  uint32_t y = x;
  for (uint32_t i = 0; i < n_products; ++i) {
    const uint32_t w = builder.add_encoded_weight(
        "w", dtype, {n_out, n_in}, random_matrix(dtype, uint64_t{n_out} * n_in, random));
    y = builder.add_value(n_out);
    builder.add_op(BP_OP_LINEAR, {x}, {y}, {w}, ProgramBuilder::attributes(bp_attr_linear{}));
  }
  builder.add_output(y);
}

std::optional<Mix> find_mix(std::string_view name) {
  if (name == "q4_k_m") return Mix{BP_DTYPE_Q4_K, BP_DTYPE_Q6_K, BP_DTYPE_Q6_K};
  const auto dtype = dtype_from_name(name);
  if (!dtype) return std::nullopt;
  return Mix{*dtype, *dtype, *dtype};
}

double weight_bytes(const Shape& s, const Mix& mix, uint32_t n_tokens) {
  const uint64_t attention_width = uint64_t{s.n_heads} * s.head_dim,
                 kv_width = uint64_t{s.n_kv_heads} * s.head_dim;
  double n_experts = 1;
  if (s.n_experts > 0) {
    n_experts = s.n_experts * (1 - std::pow(1 - static_cast<double>(s.n_used) / s.n_experts,
                                            static_cast<double>(n_tokens)));
  }
  const uint64_t n_mlp = uint64_t{s.dim} * s.n_ff;
  auto bytes = static_cast<double>(row_bytes(mix.head, uint64_t{s.dim} * s.n_vocab));
  for (uint32_t i = 0; i < s.n_layers; ++i) {
    const bp_dtype more = has_more_bits(i, s.n_layers) ? mix.more : mix.most;
    bytes += static_cast<double>(row_bytes(mix.most, s.dim * (2 * attention_width + kv_width)) +
                                 row_bytes(more, s.dim * kv_width) +
                                 row_bytes(BP_DTYPE_F32, uint64_t{s.dim} * s.n_experts));
    bytes +=
        n_experts * static_cast<double>(row_bytes(mix.most, 2 * n_mlp) + row_bytes(more, n_mlp));
  }
  return bytes;
}

std::optional<Shape> find_shape(std::string_view name) {
  for (const Shape& shape : kShapes) {
    if (shape.name == name) return shape;
  }
  return std::nullopt;
}

void build_model(const Shape& shape, const Mix& mix, conformance::ProgramBuilder& builder) {
  Model(shape, mix, builder).build();
}

}  // namespace bp::bench
