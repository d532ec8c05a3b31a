// Keys, values and queries as 8-bit or 4-bit integers with a scale per 32 dimensions.
#pragma once

#include "backends/cpu/kernels/block_scale.inl"
#include "backends/cpu/kernels/kv_tile.hpp"

namespace bp::cpu::BP_CPU_ISA {
namespace {

// Up to 32 values; lanes from n on are zero.
struct KvDims {
  F32x16 low, high;
};

inline KvDims load_dims(const float* x, uint32_t n) {
  if (n == kKvScaleDims) return {load(x), load(x + 16)};
  if (n >= 16) return {load(x), load_first(x + 16, n - 16)};
  return {load_first(x, n), zero()};
}

// The Hadamard transform of 32 dimensions, which keeps products of two vectors and spreads what
// stands out in few dimensions, as trained models' keys do, over all of them. Fewer stay as they
// are.
inline void spread(KvDims& x, uint32_t n) {
  if (n < kKvScaleDims) return;
  constexpr float kUnit = 0.17677669529663688f;  // 1 / sqrt(32)
  const F32x16 low = mul(add(x.low, x.high), broadcast(kUnit));
  const F32x16 high = mul(sub(x.low, x.high), broadcast(kUnit));
  alignas(64) float lanes[2][kKvScaleDims];
  store(lanes[0], low);
  store(lanes[0] + 16, high);
  for (uint32_t stage = 0; stage < 4; ++stage) {  // each moves what it adds to the front
    const float* from = lanes[stage % 2];
    float* to = lanes[1 - stage % 2];
    for (uint32_t i = 0; i < 16; ++i) {
      to[i] = from[2 * i] + from[2 * i + 1];
      to[i + 16] = from[2 * i] - from[2 * i + 1];
    }
  }
  x = {load(lanes[0]), load(lanes[0] + 16)};
}

inline uint16_t to_f16(float x) {
  uint16_t lanes[16];
  store_f16(lanes, broadcast(x));
  return lanes[0];
}

// Of 8-bit integers: their scale, and the sum of their halves, lane by lane.
struct KvBytes {
  float scale;
  I32x16 sums;
};
inline KvBytes store_bytes_of(const KvDims& x, int8_t q[kKvScaleDims]) {
  const BlockScale block = block_scale(x.low, x.high);
  const I32x16 low = to_int(mul(x.low, broadcast(block.inverse)));
  const I32x16 high = to_int(mul(x.high, broadcast(block.inverse)));
  store_i8(q, low);
  store_i8(q + 16, high);
  return {block.scale, add(low, high)};
}

void quantize_kv_8(const float* x, uint32_t n, bool is_key, int8_t q[kKvScaleDims],
                   uint16_t* scale) {
  KvDims dims = load_dims(x, n);
  if (is_key) spread(dims, n);
  *scale = to_f16(store_bytes_of(dims, q).scale);
}

// What is largest becomes -8, by a scale of the opposite sign.
void quantize_kv_4(const float* x, uint32_t n, bool is_key, int8_t q[kKvScaleDims],
                   uint16_t* scale) {
  KvDims dims = load_dims(x, n);
  if (is_key) spread(dims, n);
  const BlockScale block = block_scale(dims.low, dims.high);
  const float highest = reduce_max(max(dims.low, dims.high));
  const float lowest = reduce_max(max(sub(zero(), dims.low), sub(zero(), dims.high)));
  const float ratio = (highest >= lowest ? -127.0f : 127.0f) / 8;
  const F32x16 inverse = broadcast(block.inverse / ratio);
  const F32x16 seven = broadcast(7.0f);
  store_i8(q, to_int(min(seven, mul(dims.low, inverse))));
  store_i8(q + 16, to_int(min(seven, mul(dims.high, inverse))));
  *scale = to_f16(block.scale * ratio);
}

void quantize_query(float* x, uint32_t head_dim) {
  float* record = x;
  for (uint32_t d = 0; d < head_dim; d += kKvScaleDims) {
    const uint32_t n = head_dim - d < kKvScaleDims ? head_dim - d : kKvScaleDims;
    KvDims dims = load_dims(x + d, n);
    spread(dims, n);
    int32_t words[kQueryRecordWords];
    const KvBytes bytes = store_bytes_of(dims, reinterpret_cast<int8_t*>(words));
    // Unsigned: what stands for a NaN may overflow.
    const auto sum = static_cast<uint32_t>(reduce_add(bytes.sums));
    words[kQueryWords] = static_cast<int32_t>(0 - 128 * sum);
    __builtin_memcpy(&words[kQueryWords + 1], &bytes.scale, sizeof bytes.scale);
    __builtin_memcpy(record, words, sizeof words);
    record += kQueryRecordWords;
  }
}

}  // namespace
}  // namespace bp::cpu::BP_CPU_ISA
