// The softmax of scores that arrive tile by tile.
#pragma once

#include "backends/cpu/kernels/kernel_table.hpp"
#include "backends/cpu/kernels/math.inl"
#include "backends/cpu/kernels/unroll.hpp"

namespace bp::cpu::BP_CPU_ISA {
namespace {

struct StoreFloats {
  static F32x16 store(float* row, uint32_t group, F32x16 p) {
    BP_CPU_ISA::store(row + size_t{16} * group, p);
    return p;
  }
};

constexpr float kLog2E = 1.44269504088896341f;

// What is not a product with one factor alone: scores [64] scaled, capped, and nothing outside
// [first, end), whatever was left there.
inline void scale_and_cap(float* scores, uint32_t first, uint32_t end, float scale, float softcap) {
  for (uint32_t g = 0; g < kTileGroups; ++g) {
    const int from = static_cast<int>(first) - static_cast<int>(16 * g);
    const int to = static_cast<int>(end) - static_cast<int>(16 * g);
    // What was left may be subnormal.
    F32x16 x = where_between(from, to, load(scores + 16 * g), zero());
    x = mul(x, broadcast(softcap == 0 ? scale * kLog2E : scale));
    if (softcap != 0) x = mul(broadcast(softcap * kLog2E), tanh(div(x, broadcast(softcap))));
    store(scores + 16 * g, where_between(from, to, x, broadcast(-__builtin_inff())));
  }
}

// Lane i: the largest of x[i].
template <uint32_t R>
inline F32x16 reduce_max_each(const F32x16 (&x)[R]) {
  float most[16] = {};
  for (uint32_t i = 0; i < R; ++i) most[i] = reduce_max(x[i]);
  return R == 1 ? broadcast(most[0]) : load(most);
}

// R rows of scores times factor raise their maxima.
template <uint32_t R>
inline void raise_maxima(const float* scores, float factor, const RunningSoftmax& rows,
                         uint32_t row) {
  F32x16 most[R];
  BP_UNROLL for (uint32_t m = 0; m < R; ++m) {
    F32x16 x[kTileGroups];
    BP_UNROLL for (uint32_t g = 0; g < kTileGroups; ++g) {
      x[g] = mul(load(scores + (row + m) * kTilePositions + 16 * g), broadcast(factor));
    }
    most[m] = max(max(x[0], x[1]), max(x[2], x[3]));
  }
  const F32x16 before = load_first(rows.maxima + row, R);
  const F32x16 maxima = max(before, reduce_max_each(most));
  const F32x16 factors = exp2_of_negative(sub(before, maxima));
  store_first(rows.maxima + row, maxima, R);
  store_first(rows.factors + row, factors, R);
}

template <class Form>
inline void to_probabilities(float* scores, float factor, float maximum, float kept, float* sums) {
  F32x16 x[kTileGroups], total = zero();
  BP_UNROLL for (uint32_t g = 0; g < kTileGroups; ++g) {
    x[g] = sub(mul(load(scores + 16 * g), broadcast(factor)), broadcast(maximum));
  }
  BP_UNROLL for (uint32_t g = 0; g < kTileGroups; ++g) {
    total = add(total, Form::store(scores, g, exp2_of_negative(x[g])));
  }
  store(sums, fma(load(sums), broadcast(kept), total));
}

// Form writes probabilities over the scores, all of which are read before, and returns what it has
// written: the sums are of the probabilities as they are used, so that what rounding adds to one
// that outweighs the others cancels.
template <class Form>
void softmax_tile(float* scores, uint32_t n_rows, uint32_t first, uint32_t end, float scale,
                  float softcap, const RunningSoftmax& rows) {
  constexpr uint32_t kTogether = 4;
  float factor = scale * kLog2E;
  if (first != 0 || end != kTilePositions || softcap != 0) {
    for (uint32_t r = 0; r < n_rows; ++r) {
      scale_and_cap(scores + r * kTilePositions, first, end, scale, softcap);
    }
    factor = 1;
  }
  // All maxima first: what waits for one another of a row does not for another row's.
  uint32_t row = 0;
  for (; row + kTogether <= n_rows; row += kTogether) {
    raise_maxima<kTogether>(scores, factor, rows, row);
  }
  for (; row < n_rows; ++row) raise_maxima<1>(scores, factor, rows, row);
  for (row = 0; row < n_rows; ++row) {
    to_probabilities<Form>(scores + row * kTilePositions, factor, rows.maxima[row],
                           rows.factors[row], rows.sums + row * rows.sums_stride);
  }
}

}  // namespace
}  // namespace bp::cpu::BP_CPU_ISA
