// Queries and probabilities rounded to bf16. Needs AVX-512 BF16.
#pragma once

#include "backends/cpu/kernels/pair_layout.inl"
#include "backends/cpu/kernels/softmax.inl"

namespace bp::cpu::avx512 {
namespace {

inline __m256i round_to_bf16(F32x16 x) {
  return reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(x.v));
}

struct StorePairs {
  static F32x16 store(float* row, uint32_t group, F32x16 p) {
    const __m256i halves = round_to_bf16(p);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(row + size_t{8} * group), halves);
    return widen_bf16(halves);
  }
};

// The same numbers as floats.
struct StoreRounded {
  static F32x16 store(float* row, uint32_t group, F32x16 p) {
    return StoreFloats::store(row, group, widen_bf16(round_to_bf16(p)));
  }
};

// Whole steps of kKeyPairDims; what the query lacks of them is zeros.
[[maybe_unused]] void pack_query_in_pairs(float* x, uint32_t head_dim) {
  for (uint32_t d = 0; d < head_dim; d += kKeyPairDims) {
    const F32x16 low = load(x + d), high = load(x + d + 16);
    StorePairs::store(x, d / 16, low);
    StorePairs::store(x, d / 16 + 1, high);
  }
}
[[maybe_unused]] void round_query(float* x, uint32_t head_dim) {
  for (uint32_t d = 0; d < head_dim; d += 16) StoreRounded::store(x, d / 16, load(x + d));
}

}  // namespace
}  // namespace bp::cpu::avx512
