#include "backplane/reference/kv_cache.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "backplane/half.hpp"

namespace bp::reference {

namespace {

constexpr uint64_t kScaleDims = 32;  // of q8_0 and q4_0, which share a scale

// Of n <= 32 values the one of largest magnitude; a NaN where one is.
float extreme(const float* in, uint64_t n) {
  float largest = 0;
  for (uint64_t i = 0; i < n && !std::isnan(largest); ++i) {
    if (!(std::fabs(in[i]) <= std::fabs(largest))) largest = in[i];
  }
  return largest;
}

float inverse_of(float scale) {
  return std::fabs(scale) < std::numeric_limits<float>::min() ? 0.0f : 1 / scale;
}

void round_q8_0(const float* in, uint64_t n, float* out) {
  const float scale = std::fabs(extreme(in, n)) / 127.0f;
  const float stored = f16_to_f32(f32_to_f16(scale));
  for (uint64_t i = 0; i < n; ++i) out[i] = std::nearbyint(in[i] * inverse_of(scale)) * stored;
}

// The extreme becomes -8.
void round_q4_0(const float* in, uint64_t n, float* out) {
  const float scale = extreme(in, n) / -8.0f;
  const float stored = f16_to_f32(f32_to_f16(scale));
  for (uint64_t i = 0; i < n; ++i) {
    out[i] = std::fmin(std::nearbyint(in[i] * inverse_of(scale)), 7.0f) * stored;
  }
}

// One head.
void store_rounded(bp_dtype dtype, const float* in, uint64_t n, float* out) {
  if (dtype == BP_DTYPE_Q8_0 || dtype == BP_DTYPE_Q4_0) {
    const auto round = dtype == BP_DTYPE_Q8_0 ? round_q8_0 : round_q4_0;
    for (uint64_t i = 0; i < n; i += kScaleDims) {
      round(in + i, std::min(kScaleDims, n - i), out + i);
    }
    return;
  }
  for (uint64_t i = 0; i < n; ++i) {
    if (dtype == BP_DTYPE_F16) {
      out[i] = f16_to_f32(f32_to_f16(in[i]));
    } else if (dtype == BP_DTYPE_BF16) {
      out[i] = bf16_to_f32(f32_to_bf16(in[i]));
    } else if (dtype == BP_DTYPE_F8_E4M3) {
      out[i] = f8_e4m3_to_f32(f32_to_f8_e4m3(in[i]));
    } else {
      out[i] = in[i];
    }
  }
}

void store_heads(bp_dtype dtype, uint64_t n_heads, const float* in, uint64_t width, float* out) {
  const uint64_t head_dim = width / n_heads;
  for (uint64_t h = 0; h < n_heads; ++h) {
    store_rounded(dtype, in + h * head_dim, head_dim, out + h * head_dim);
  }
}

template <class Bits>
void narrow_all(Bits (*narrow)(float), const float* from, uint64_t n, uint8_t* to) {
  for (uint64_t i = 0; i < n; ++i) {
    const Bits bits = narrow(from[i]);
    std::memcpy(to + i * sizeof bits, &bits, sizeof bits);
  }
}
template <class Bits>
void widen_all(float (*widen)(Bits), const uint8_t* from, uint64_t n, float* to) {
  for (uint64_t i = 0; i < n; ++i) {
    Bits bits;
    std::memcpy(&bits, from + i * sizeof bits, sizeof bits);
    to[i] = widen(bits);
  }
}

// Zeros that take no memory until they are written.
float* allocate_floats(uint64_t n) {
  return static_cast<float*>(std::calloc(n, sizeof(float)));
}

void apply_to(const bp_block_op& op, uint64_t n_floats, float* blocks) {
  float* destination = blocks + static_cast<uint64_t>(op.destination) * n_floats;
  if (op.action == BP_BLOCK_CLEAR) {
    std::memset(destination, 0, n_floats * sizeof(float));
  } else {
    std::memmove(destination, blocks + static_cast<uint64_t>(op.source) * n_floats,
                 n_floats * sizeof(float));
  }
}

}  // namespace

KvCache::KvCache(std::span<const bp_kv_slot> slots, uint32_t n_groups, uint32_t block_size,
                 bp_dtype k_dtype, bp_dtype v_dtype)
    : n_groups_(n_groups), block_size_(block_size), k_dtype_(k_dtype), v_dtype_(v_dtype) {
  for (const bp_kv_slot& slot : slots) {
    layers_.push_back({slot.group, slot.n_kv_heads, uint64_t{slot.n_kv_heads} * slot.k_head_dim,
                       uint64_t{slot.n_kv_heads} * slot.v_head_dim, nullptr, nullptr});
  }
}

uint64_t KvCache::block_bytes(uint32_t group) const {
  uint64_t floats = 0;
  for (const Layer& layer : layers_) {
    if (layer.group == group) floats += (layer.k_width + layer.v_width) * block_size_;
  }
  return floats * sizeof(float);
}

Status KvCache::allocate(std::span<const uint32_t> n_blocks) {
  if (!n_blocks_.empty()) return invalid_argument("the KV cache is allocated already");
  if (n_blocks.size() != n_groups_) {
    return invalid_argument("block counts of " + std::to_string(n_blocks.size()) +
                            " KV groups were given, the program has " + std::to_string(n_groups_));
  }
  for (Layer& layer : layers_) {
    const uint64_t n_tokens = uint64_t{n_blocks[layer.group]} * block_size_;
    layer.k.reset(allocate_floats(n_tokens * layer.k_width));
    layer.v.reset(allocate_floats(n_tokens * layer.v_width));
    if (n_tokens > 0 && (layer.k == nullptr || layer.v == nullptr)) {
      for (Layer& taken : layers_) taken.k.reset(), taken.v.reset();
      return out_of_memory("a KV cache of " + std::to_string(n_blocks[layer.group]) +
                           " blocks of " + std::to_string(block_bytes(layer.group)) +
                           " bytes does not fit into memory");
    }
  }
  n_blocks_.assign(n_blocks.begin(), n_blocks.end());
  return {};
}

void KvCache::apply(const bp_block_op& op) {
  for (Layer& layer : layers_) {
    if (layer.group != op.index) continue;
    apply_to(op, block_size_ * layer.k_width, layer.k.get());
    apply_to(op, block_size_ * layer.v_width, layer.v.get());
  }
}

void KvCache::store(uint32_t slot, uint64_t block, uint64_t offset, const float* k,
                    const float* v) {
  const Layer& layer = layers_[slot];
  const uint64_t token = block * block_size_ + offset;
  store_heads(k_dtype_, layer.n_heads, k, layer.k_width, layer.k.get() + token * layer.k_width);
  store_heads(v_dtype_, layer.n_heads, v, layer.v_width, layer.v.get() + token * layer.v_width);
}

const float* KvCache::k(uint32_t slot, uint64_t block, uint64_t offset) const {
  const Layer& layer = layers_[slot];
  return layer.k.get() + (block * block_size_ + offset) * layer.k_width;
}

const float* KvCache::v(uint32_t slot, uint64_t block, uint64_t offset) const {
  const Layer& layer = layers_[slot];
  return layer.v.get() + (block * block_size_ + offset) * layer.v_width;
}

bp_dtype image_dtype(bp_dtype kept) {
  const bool is_float = kept == BP_DTYPE_F16 || kept == BP_DTYPE_BF16 || kept == BP_DTYPE_F8_E4M3;
  return is_float ? kept : BP_DTYPE_F32;
}

KvCache::Rows KvCache::rows(uint32_t slot, bool is_value, int32_t block) const {
  const Layer& layer = layers_[slot];
  const uint64_t n = block_size_ * (is_value ? layer.v_width : layer.k_width);
  float* floats = (is_value ? layer.v : layer.k).get() + static_cast<uint64_t>(block) * n;
  return {floats, n, image_dtype(is_value ? v_dtype_ : k_dtype_)};
}

void KvCache::export_rows(uint32_t slot, bool is_value, int32_t block, uint8_t* to) const {
  const Rows from = rows(slot, is_value, block);
  switch (from.dtype) {
    case BP_DTYPE_F16:
      return narrow_all(f32_to_f16, from.floats, from.n_floats, to);
    case BP_DTYPE_BF16:
      return narrow_all(f32_to_bf16, from.floats, from.n_floats, to);
    case BP_DTYPE_F8_E4M3:
      return narrow_all(f32_to_f8_e4m3, from.floats, from.n_floats, to);
    default:
      std::memcpy(to, from.floats, from.n_floats * sizeof(float));
  }
}

void KvCache::import_rows(uint32_t slot, bool is_value, int32_t block, const uint8_t* from) {
  const Rows to = rows(slot, is_value, block);
  switch (to.dtype) {
    case BP_DTYPE_F16:
      return widen_all(f16_to_f32, from, to.n_floats, to.floats);
    case BP_DTYPE_BF16:
      return widen_all(bf16_to_f32, from, to.n_floats, to.floats);
    case BP_DTYPE_F8_E4M3:
      return widen_all(f8_e4m3_to_f32, from, to.n_floats, to.floats);
    default:
      std::memcpy(to.floats, from, to.n_floats * sizeof(float));
  }
}

}  // namespace bp::reference
