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

// Form writes probabilities over the scores, all of which are read before, and returns what it has
// written: the sums are of the probabilities as they are used, so that what rounding adds to one
// that outweighs the others cancels.
template <class Form>
float softmax_tile(float* scores, uint32_t first, uint32_t end, float scale, float softcap,
                   float* maximum, float* sums) {
  F32x16 x[kTileGroups];
  const auto set_outside = [&](F32x16 y) __attribute__((always_inline)) {
    if (first == 0 && end == kTilePositions) return;
    BP_UNROLL for (uint32_t g = 0; g < kTileGroups; ++g) {
      const int base = static_cast<int>(16 * g);
      x[g] = where_between(static_cast<int>(first) - base, static_cast<int>(end) - base, x[g], y);
    }
  };
  BP_UNROLL for (uint32_t g = 0; g < kTileGroups; ++g) x[g] = load(scores + 16 * g);
  set_outside(zero());  // instead of what was left there, which may be subnormal
  if (softcap == 0) {
    const F32x16 factor = broadcast(scale * kLog2E);
    BP_UNROLL for (uint32_t g = 0; g < kTileGroups; ++g) x[g] = mul(x[g], factor);
  } else {
    for (uint32_t g = 0; g < kTileGroups; ++g) {
      const F32x16 capped = tanh(div(mul(x[g], broadcast(scale)), broadcast(softcap)));
      x[g] = mul(broadcast(softcap * kLog2E), capped);
    }
  }
  set_outside(broadcast(-__builtin_inff()));
  const float now = reduce_max(max(broadcast(*maximum), max(max(x[0], x[1]), max(x[2], x[3]))));
  F32x16 total = zero();
  BP_UNROLL for (uint32_t g = 0; g < kTileGroups; ++g) {
    const F32x16 p = exp2_of_negative(sub(x[g], broadcast(now)));
    total = add(total, Form::store(scores, g, p));
  }
  if (now == *maximum) {
    store(sums, add(load(sums), total));
    return 1;
  }
  float factors[16];
  const F32x16 factor = exp2_of_negative(broadcast(*maximum - now));
  store(factors, factor);
  store(sums, fma(load(sums), factor, total));
  *maximum = now;
  return factors[0];
}

}  // namespace
}  // namespace bp::cpu::BP_CPU_ISA
