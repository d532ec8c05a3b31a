// Kernels of ops with state: each column by itself, so that results do not depend on how columns
// and tokens are divided.
#pragma once

#include "backends/cpu/kernels/kernel_table.hpp"
#include "backends/cpu/kernels/lanes.inl"

namespace bp::cpu::BP_CPU_ISA {
namespace {

// Panels whose sums stay in registers together.
inline constexpr uint32_t kDeltaPanels = kManyRegisters ? 4 : 2;

template <uint32_t N>
inline void delta_panels(const DeltaToken& token, const float* from, float* to, const float* v,
                         float* o, size_t n_columns) {
  const size_t panel = size_t{token.key_dim} * 16;
  F32x16 remembered[N], read[N];
  for (uint32_t p = 0; p < N; ++p) remembered[p] = read[p] = zero();
  for (size_t i = 0; i < token.key_dim; ++i) {
    const F32x16 k = broadcast(token.k[i]), q = broadcast(token.q[i]);
    for (uint32_t p = 0; p < N; ++p) {
      const F32x16 s = load(from + p * panel + i * 16);
      remembered[p] = fma(s, k, remembered[p]);
      read[p] = fma(s, q, read[p]);
    }
  }
  const F32x16 decay = broadcast(token.decay), beta = broadcast(token.beta);
  F32x16 delta[N];
  for (uint32_t p = 0; p < N; ++p) {
    const size_t first = size_t{p} * 16, n = n_columns - first;
    const F32x16 value = n >= 16 ? load(v + first) : load_first(v + first, n);
    delta[p] = mul(beta, sub(value, mul(decay, remembered[p])));
    const F32x16 out = fma(delta[p], broadcast(token.k_dot_q), mul(decay, read[p]));
    if (n >= 16) {
      store(o + first, out);
    } else {
      store_first(o + first, out, n);
    }
  }
  for (size_t i = 0; i < token.key_dim; ++i) {
    const F32x16 k = broadcast(token.k[i]);
    for (uint32_t p = 0; p < N; ++p) {
      const size_t at = p * panel + i * 16;
      store(to + at, fma(delta[p], k, mul(decay, load(from + at))));
    }
  }
}

void delta_rule(const DeltaToken& token, const float* from, float* to, const float* v, float* o,
                size_t n_columns) {
  const size_t panel = size_t{token.key_dim} * 16;
  size_t c = 0;
  for (; c + (kDeltaPanels - 1) * 16 < n_columns; c += kDeltaPanels * 16) {
    const size_t at = c / 16 * panel;
    delta_panels<kDeltaPanels>(token, from + at, to + at, v + c, o + c, n_columns - c);
  }
  for (; c < n_columns; c += 16) {
    const size_t at = c / 16 * panel;
    delta_panels<1>(token, from + at, to + at, v + c, o + c, n_columns - c);
  }
}

float dot_rows(const float* a, const float* b, size_t n) {
  F32x16 total = zero();
  for_lanes(n, [&](size_t i, auto get, auto) { total = fma(get(a + i), get(b + i), total); });
  return reduce_add(total);
}

void convolve(const float* const* rows, const float* weights, size_t weight_stride, uint32_t n_rows,
              const float* bias, float* y, size_t n) {
  for_lanes(n, [&](size_t i, auto get, auto put) {
    F32x16 sum = bias == nullptr ? zero() : get(bias + i);
    for (uint32_t j = 0; j < n_rows; ++j) {
      sum = fma(get(rows[j] + i), get(weights + j * weight_stride + i), sum);
    }
    put(y + i, sum);
  });
}

}  // namespace
}  // namespace bp::cpu::BP_CPU_ISA
