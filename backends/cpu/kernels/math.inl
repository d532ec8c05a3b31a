// Elementary functions on 16 lanes. NaN gives NaN. Powers that come out as 0 are not subnormal on
// the way, for which Intel's processors take hundreds of cycles.
#pragma once

#include "backplane/ops.h"

namespace bp::cpu::BP_CPU_ISA {
namespace {

// Within 2 units in the last place; below -87.3 it is 0.
inline F32x16 exp(F32x16 x) {
  constexpr float kLeast = -87.3f;
  const F32x16 clamped = min(broadcast(100.0f), max(broadcast(kLeast), x));
  const F32x16 n = round(mul(clamped, broadcast(1.44269504088896341f)));
  // ln 2 in two parts, the first exact in products with n.
  F32x16 r = fma(n, broadcast(-0.693359375f), clamped);
  r = fma(n, broadcast(2.12194440e-4f), r);
  // Minimax polynomial of Cephes' expf on [-ln 2 / 2, ln 2 / 2].
  F32x16 p = broadcast(1.9875691500e-4f);
  p = fma(p, r, broadcast(1.3981999507e-3f));
  p = fma(p, r, broadcast(8.3334519073e-3f));
  p = fma(p, r, broadcast(4.1665795894e-2f));
  p = fma(p, r, broadcast(1.6666665459e-1f));
  p = fma(p, r, broadcast(5.0000001201e-1f));
  p = fma(p, mul(r, r), add(r, broadcast(1.0f)));
  return where_less(x, broadcast(kLeast), zero(), scale_by_power_of_two(p, n));
}

// 2^x for x <= 0 within 2 units in the last place, 2^0 exactly; below -126 it is 0.
inline F32x16 exp2_of_negative(F32x16 x) {
  constexpr float kLeast = -126.0f;
  const F32x16 clamped = max(broadcast(kLeast), x);
  const F32x16 n = round(clamped);
  const F32x16 r = sub(clamped, n);
  // Minimax polynomial on [-1/2, 1/2] but for its first coefficient.
  F32x16 p = broadcast(1.3276470970e-3f);
  p = fma(p, r, broadcast(9.6755415962e-3f));
  p = fma(p, r, broadcast(5.5507132790e-2f));
  p = fma(p, r, broadcast(2.4022119719e-1f));
  p = fma(p, r, broadcast(6.9314696706e-1f));
  p = fma(p, r, broadcast(1.0f));
  return where_less(x, broadcast(kLeast), zero(), scale_by_power_of_two(p, n));
}

inline F32x16 sigmoid(F32x16 x) {
  const F32x16 one = broadcast(1.0f);
  return div(one, add(one, exp(sub(zero(), x))));
}

inline F32x16 tanh(F32x16 x) {
  const F32x16 one = broadcast(1.0f);
  const F32x16 e = exp(mul(abs(x), broadcast(-2.0f)));
  return copy_sign(div(sub(one, e), add(one, e)), x);
}

inline F32x16 gelu_tanh(F32x16 x) {
  const F32x16 cubic = fma(mul(x, x), mul(x, broadcast(0.044715f)), x);
  const F32x16 t = tanh(mul(cubic, broadcast(0.797884560802865356f)));  // sqrt(2 / pi)
  return mul(mul(x, broadcast(0.5f)), add(t, broadcast(1.0f)));
}

inline F32x16 gelu(F32x16 x) {
  float lanes[16];
  store(lanes, x);
  for (float& lane : lanes) {
    lane = 0.5f * lane * (1.0f + __builtin_erff(lane * 0.707106781186547524f));
  }
  return load(lanes);
}

// max gives its second operand where one is NaN.
inline F32x16 relu(F32x16 x) {
  return max(zero(), x);
}

inline F32x16 activated(uint32_t activation, F32x16 x) {
  switch (activation) {
    case BP_ACT_SILU:
      return mul(x, sigmoid(x));
    case BP_ACT_GELU:
      return gelu(x);
    case BP_ACT_GELU_TANH:
      return gelu_tanh(x);
    case BP_ACT_RELU:
      return relu(x);
    case BP_ACT_RELU2:
      return mul(relu(x), relu(x));
    case BP_ACT_SIGMOID:
      return sigmoid(x);
    case BP_ACT_TANH:
      return tanh(x);
    default:
      return x;
  }
}

}  // namespace
}  // namespace bp::cpu::BP_CPU_ISA
