#pragma once
// Sixteen lanes as four 128-bit registers of Arm. Needs AArch64 with its dot products (ASIMDDP).
// Included by the kernels of this instruction set alone; everything has internal linkage.

#include <arm_neon.h>
#include <stddef.h>
#include <stdint.h>

#include "backends/cpu/kernels/unroll.hpp"

#define BP_CPU_ISA neon

namespace bp::cpu::neon {
namespace {

// Two rows fill half of the 32 registers with sums, a third would leave none for the weights.
inline constexpr uint32_t kMaxPanel = 3;
inline constexpr uint32_t kPairedPanel = UINT32_MAX;  // strips are multiplied one by one
inline constexpr bool kIsTuned = false;               // or one Tuning for all
inline constexpr bool kUnpacks = false;               // strips that many rows meet
inline constexpr bool kManyRegisters = false;
inline constexpr uint32_t kFloatRows = 2;
inline constexpr uint32_t kFloatColumns = 2;
inline constexpr uint32_t kFloatQueries = 4;
inline constexpr bool kSignedAsUnsigned = false;
inline constexpr int32_t kCountsMiddle = 127;
inline constexpr bool kSumsPairs = false;
inline constexpr uint32_t kTablePanel = UINT32_MAX;
inline constexpr int32_t kSumStart = 0;  // sums of products are converted
inline constexpr float kSumStartValue = 0;

struct F32x16 {
  float32x4_t v[4];
};
struct I32x16 {
  int32x4_t v[4];
};
struct Bf16Pairs {
  F32x16 even, odd;
};
struct U8x64 {
  uint8x16_t v[4];
};

// f of each of the four registers.
template <class Result, class F>
inline Result quarters(F f) {
  return {{f(0), f(1), f(2), f(3)}};
}

inline F32x16 broadcast(float x) {
  return quarters<F32x16>([&](int) { return vdupq_n_f32(x); });
}
inline F32x16 zero() {
  return broadcast(0);
}
inline F32x16 load(const float* p) {
  return quarters<F32x16>([&](int i) { return vld1q_f32(p + 4 * i); });
}
inline void store(float* p, F32x16 x) {
  for (int i = 0; i < 4; ++i) vst1q_f32(p + 4 * i, x.v[i]);
}
// Lanes from n on are zero and their memory is not touched.
inline F32x16 load_first(const float* p, size_t n) {
  float lanes[16] = {};
  __builtin_memcpy(lanes, p, n * sizeof(float));
  return load(lanes);
}
inline void store_first(float* p, F32x16 x, size_t n) {
  float lanes[16];
  store(lanes, x);
  __builtin_memcpy(p, lanes, n * sizeof(float));
}
inline F32x16 add(F32x16 a, F32x16 b) {
  return quarters<F32x16>([&](int i) { return vaddq_f32(a.v[i], b.v[i]); });
}
inline F32x16 sub(F32x16 a, F32x16 b) {
  return quarters<F32x16>([&](int i) { return vsubq_f32(a.v[i], b.v[i]); });
}
inline F32x16 mul(F32x16 a, F32x16 b) {
  return quarters<F32x16>([&](int i) { return vmulq_f32(a.v[i], b.v[i]); });
}
inline F32x16 div(F32x16 a, F32x16 b) {
  return quarters<F32x16>([&](int i) { return vdivq_f32(a.v[i], b.v[i]); });
}
inline F32x16 fma(F32x16 a, F32x16 b, F32x16 c) {
  return quarters<F32x16>([&](int i) { return vfmaq_f32(c.v[i], a.v[i], b.v[i]); });
}
// The second operand where one of the two is NaN.
inline float32x4_t max(float32x4_t a, float32x4_t b) {
  return vbslq_f32(vcgtq_f32(a, b), a, b);
}
inline F32x16 max(F32x16 a, F32x16 b) {
  return quarters<F32x16>([&](int i) { return max(a.v[i], b.v[i]); });
}
inline F32x16 min(F32x16 a, F32x16 b) {
  return quarters<F32x16>(
      [&](int i) { return vbslq_f32(vcltq_f32(a.v[i], b.v[i]), a.v[i], b.v[i]); });
}
inline F32x16 round(F32x16 x) {
  return quarters<F32x16>([&](int i) { return vrndnq_f32(x.v[i]); });
}
// y where x < limit, else z.
inline F32x16 where_less(F32x16 x, F32x16 limit, F32x16 y, F32x16 z) {
  return quarters<F32x16>(
      [&](int i) { return vbslq_f32(vcltq_f32(x.v[i], limit.v[i]), y.v[i], z.v[i]); });
}
// Whether x < limit in all lanes of all four.
inline bool all_less(const F32x16 (&x)[4], F32x16 limit) {
  uint32x4_t less = vcltq_f32(x[0].v[0], limit.v[0]);
  for (const F32x16& lanes : x) {
    for (int i = 0; i < 4; ++i) less = vandq_u32(less, vcltq_f32(lanes.v[i], limit.v[i]));
  }
  return vminvq_u32(less) == UINT32_MAX;
}
// Lanes first <= i < end of x, others of y.
inline F32x16 where_between(int first, int end, F32x16 x, F32x16 y) {
  constexpr int32_t kLanes[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  return quarters<F32x16>([&](int i) {
    const int32x4_t lane = vld1q_s32(kLanes + 4 * i);
    const uint32x4_t inside =
        vandq_u32(vcgeq_s32(lane, vdupq_n_s32(first)), vcltq_s32(lane, vdupq_n_s32(end)));
    return vbslq_f32(inside, x.v[i], y.v[i]);
  });
}
inline F32x16 abs(F32x16 x) {
  return quarters<F32x16>([&](int i) { return vabsq_f32(x.v[i]); });
}
inline F32x16 copy_sign(F32x16 magnitude, F32x16 sign) {
  const uint32x4_t mask = vdupq_n_u32(0x80000000u);
  return quarters<F32x16>([&](int i) { return vbslq_f32(mask, sign.v[i], magnitude.v[i]); });
}
inline float32x4_t power_of_two(int32x4_t n) {
  return vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(n, vdupq_n_s32(127)), 23));
}
// x * 2^n for integral n in [-252, 252].
inline F32x16 scale_by_power_of_two(F32x16 x, F32x16 n) {
  return quarters<F32x16>([&](int i) {
    const int32x4_t whole = vcvtnq_s32_f32(n.v[i]);
    const int32x4_t half = vshrq_n_s32(whole, 1);
    return vmulq_f32(vmulq_f32(x.v[i], power_of_two(half)), power_of_two(vsubq_s32(whole, half)));
  });
}
inline float reduce_add(F32x16 x) {
  const float32x4_t a = vaddq_f32(vaddq_f32(x.v[0], x.v[2]), vaddq_f32(x.v[1], x.v[3]));
  const float32x2_t b = vadd_f32(vget_low_f32(a), vget_high_f32(a));
  return vget_lane_f32(b, 0) + vget_lane_f32(b, 1);
}
inline float reduce_max(F32x16 x) {
  const float32x4_t a = max(max(x.v[0], x.v[2]), max(x.v[1], x.v[3]));
  float lanes[4];
  vst1q_f32(lanes, a);
  for (int half = 2; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) {
      lanes[i] = lanes[i] > lanes[i + half] ? lanes[i] : lanes[i + half];
    }
  }
  return lanes[0];
}

inline F32x16 load_f16(const uint16_t* p) {
  return quarters<F32x16>(
      [&](int i) { return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p + 4 * i))); });
}
inline F32x16 load_bf16(const uint16_t* p) {
  return quarters<F32x16>(
      [&](int i) { return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(p + 4 * i), 16)); });
}
// Sixteen pairs, as they lie.
inline Bf16Pairs load_bf16_pairs(const uint16_t* p) {
  const auto pairs = [&](int i) { return vreinterpretq_u32_u16(vld1q_u16(p + 8 * i)); };
  return {quarters<F32x16>([&](int i) { return vreinterpretq_f32_u32(vshlq_n_u32(pairs(i), 16)); }),
          quarters<F32x16>([&](int i) {
            return vreinterpretq_f32_u32(vandq_u32(pairs(i), vdupq_n_u32(0xffff0000u)));
          })};
}
inline void store_f16(uint16_t* p, F32x16 x) {
  for (int i = 0; i < 4; ++i) {
    vst1_u16(p + 4 * i, vreinterpret_u16_f16(vcvt_f16_f32(x.v[i])));
  }
}
inline void store_bf16(uint16_t* p, F32x16 x) {
  for (int i = 0; i < 4; ++i) {
    const uint32x4_t bits = vreinterpretq_u32_f32(x.v[i]);
    const uint32x4_t odd = vandq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(1));
    const uint32x4_t up = vaddq_u32(vaddq_u32(bits, vdupq_n_u32(0x7fff)), odd);
    const uint32x4_t quiet = vorrq_u32(bits, vdupq_n_u32(0x400000));
    const uint32x4_t number = vceqq_f32(x.v[i], x.v[i]);
    vst1_u16(p + 4 * i, vshrn_n_u32(vbslq_u32(number, up, quiet), 16));
  }
}
inline F32x16 widen(uint8x16_t bytes) {
  const uint16x8_t low = vmovl_u8(vget_low_u8(bytes));
  const uint16x8_t high = vmovl_u8(vget_high_u8(bytes));
  return {{vcvtq_f32_u32(vmovl_u16(vget_low_u16(low))),
           vcvtq_f32_u32(vmovl_u16(vget_high_u16(low))),
           vcvtq_f32_u32(vmovl_u16(vget_low_u16(high))),
           vcvtq_f32_u32(vmovl_u16(vget_high_u16(high)))}};
}
inline F32x16 load_u8(const uint8_t* p) {
  return widen(vld1q_u8(p));
}
inline F32x16 load_i8(const uint8_t* p) {
  const int8x16_t bytes = vreinterpretq_s8_u8(vld1q_u8(p));
  const int16x8_t low = vmovl_s8(vget_low_s8(bytes));
  const int16x8_t high = vmovl_s8(vget_high_s8(bytes));
  return {{vcvtq_f32_s32(vmovl_s16(vget_low_s16(low))),
           vcvtq_f32_s32(vmovl_s16(vget_high_s16(low))),
           vcvtq_f32_s32(vmovl_s16(vget_low_s16(high))),
           vcvtq_f32_s32(vmovl_s16(vget_high_s16(high)))}};
}

inline I32x16 load_ints(const int32_t* p) {
  return quarters<I32x16>([&](int i) { return vld1q_s32(p + 4 * i); });
}
using Factors = I32x16;
inline Factors widen_ints(int8x16_t bytes) {
  const int16x8_t low = vmovl_s8(vget_low_s8(bytes));
  const int16x8_t high = vmovl_s8(vget_high_s8(bytes));
  return {{vmovl_s16(vget_low_s16(low)), vmovl_s16(vget_high_s16(low)),
           vmovl_s16(vget_low_s16(high)), vmovl_s16(vget_high_s16(high))}};
}
inline Factors load_i8_factors(const uint8_t* p) {
  return widen_ints(vreinterpretq_s8_u8(vld1q_u8(p)));
}
// Of the lower halves of 16 bytes.
inline Factors load_low_nibble_factors(const uint8_t* p) {
  return widen_ints(vreinterpretq_s8_u8(vandq_u8(vld1q_u8(p), vdupq_n_u8(15))));
}
// Two numbers a lane, as add_pair_products takes them.
struct FactorPairs {
  Factors first, second;
};
// Of the upper halves of 16 bytes at first, and at second.
inline FactorPairs load_high_nibble_pairs(const uint8_t* first, const uint8_t* second) {
  const auto high = [](const uint8_t* p) {
    return widen_ints(vreinterpretq_s8_u8(vshrq_n_u8(vld1q_u8(p), 4)));
  };
  return {high(first), high(second)};
}
// sum + x * factors, |x| below 2^15.
inline I32x16 add_multiple(I32x16 sum, I32x16 x, Factors factors) {
  return quarters<I32x16>([&](int i) { return vmlaq_s32(sum.v[i], x.v[i], factors.v[i]); });
}
// sum + the first of each pair * the lower 16 bits of x + the second * the upper.
inline I32x16 add_pair_products(I32x16 sum, FactorPairs pairs, int32_t x) {
  const auto low = static_cast<int16_t>(x);
  return quarters<I32x16>([&](int i) {
    return vmlaq_n_s32(vmlaq_n_s32(sum.v[i], pairs.first.v[i], low), pairs.second.v[i], x >> 16);
  });
}
inline I32x16 broadcast_int(int32_t x) {
  return quarters<I32x16>([&](int) { return vdupq_n_s32(x); });
}
inline I32x16 add(I32x16 a, I32x16 b) {
  return quarters<I32x16>([&](int i) { return vaddq_s32(a.v[i], b.v[i]); });
}
inline I32x16 sub(I32x16 a, I32x16 b) {
  return quarters<I32x16>([&](int i) { return vsubq_s32(a.v[i], b.v[i]); });
}
template <int Bits>
inline I32x16 shift_left(I32x16 x) {
  return quarters<I32x16>([&](int i) { return vshlq_n_s32(x.v[i], Bits); });
}
template <int Bits>
inline I32x16 shift_right(I32x16 x) {
  return quarters<I32x16>([&](int i) { return vshrq_n_s32(x.v[i], Bits); });
}
inline F32x16 to_float(I32x16 x) {
  return quarters<F32x16>([&](int i) { return vcvtq_f32_s32(x.v[i]); });
}
// The floats that have these bits.
inline F32x16 float_of_bits(I32x16 x) {
  return quarters<F32x16>([&](int i) { return vreinterpretq_f32_s32(x.v[i]); });
}
// The bits of |x|, which order like the values, NaN above all.
inline I32x16 magnitude_bits(F32x16 x) {
  return quarters<I32x16>([&](int i) { return vreinterpretq_s32_f32(vabsq_f32(x.v[i])); });
}
inline I32x16 max(I32x16 a, I32x16 b) {
  return quarters<I32x16>([&](int i) { return vmaxq_s32(a.v[i], b.v[i]); });
}
inline int32_t reduce_max(I32x16 x) {
  return vmaxvq_s32(vmaxq_s32(vmaxq_s32(x.v[0], x.v[1]), vmaxq_s32(x.v[2], x.v[3])));
}
inline int32_t reduce_add(I32x16 x) {
  return vaddvq_s32(vaddq_s32(vaddq_s32(x.v[0], x.v[1]), vaddq_s32(x.v[2], x.v[3])));
}
// Lane i: the largest of x[i]. What other lanes hold is not said.
inline I32x16 reduce_max_each(const I32x16 (&x)[4]) {
  const auto quarter = [](I32x16 y) {
    return vmaxq_s32(vmaxq_s32(y.v[0], y.v[1]), vmaxq_s32(y.v[2], y.v[3]));
  };
  const int32x4_t most = vpmaxq_s32(vpmaxq_s32(quarter(x[0]), quarter(x[1])),
                                    vpmaxq_s32(quarter(x[2]), quarter(x[3])));
  return {{most, most, most, most}};
}
// Lane 2 i and lane 2 i + 1 change places.
inline I32x16 swap_neighbours(I32x16 x) {
  return quarters<I32x16>([&](int i) { return vrev64q_s32(x.v[i]); });
}
// Lane i holds all lanes of x[i], of 16 vectors, folded by op, for which their order is the same.
template <class Op>
inline I32x16 reduce_each(const I32x16* x, Op&& op) {
  I32x16 ones[4], twos[2];  // lanes of so many vectors: x[0] to x[3] in the first quarter
  BP_UNROLL for (int i = 0; i < 4; ++i) {
    const auto quarter = [&](int k) {
      return quarters<I32x16>([&](int q) { return x[4 * q + i].v[k]; });
    };
    ones[i] = op(op(quarter(0), quarter(1)), op(quarter(2), quarter(3)));
  }
  BP_UNROLL for (int i = 0; i < 2; ++i) {
    const I32x16 &a = ones[2 * i], &b = ones[2 * i + 1];
    twos[i] = op(quarters<I32x16>([&](int q) { return vzip1q_s32(a.v[q], b.v[q]); }),
                 quarters<I32x16>([&](int q) { return vzip2q_s32(a.v[q], b.v[q]); }));
  }
  const auto half = [&](int q, auto&& zip) {
    return vreinterpretq_s32_s64(
        zip(vreinterpretq_s64_s32(twos[0].v[q]), vreinterpretq_s64_s32(twos[1].v[q])));
  };
  const auto first = [](int64x2_t a, int64x2_t b) { return vzip1q_s64(a, b); };
  const auto second = [](int64x2_t a, int64x2_t b) { return vzip2q_s64(a, b); };
  return op(quarters<I32x16>([&](int q) { return half(q, first); }),
            quarters<I32x16>([&](int q) { return half(q, second); }));
}
// Nearest integers; what is no int32 becomes the smallest.
inline I32x16 to_int(F32x16 x) {
  const float32x4_t limit = vdupq_n_f32(2147483648.0f);
  return quarters<I32x16>([&](int i) {
    const uint32x4_t fits = vcltq_f32(x.v[i], limit);  // what is too small saturates there anyway
    return vbslq_s32(fits, vcvtnq_s32_f32(x.v[i]), vdupq_n_s32(INT32_MIN));
  });
}
inline void store_ints(int32_t* p, I32x16 x) {
  for (int i = 0; i < 4; ++i) vst1q_s32(p + 4 * i, x.v[i]);
}
inline void store_i16(int16_t* p, I32x16 x) {
  for (int i = 0; i < 4; ++i) vst1_s16(p + 4 * i, vqmovn_s32(x.v[i]));
}
inline void store_i8(int8_t* p, I32x16 x) {
  const int16x8_t low = vcombine_s16(vqmovn_s32(x.v[0]), vqmovn_s32(x.v[1]));
  const int16x8_t high = vcombine_s16(vqmovn_s32(x.v[2]), vqmovn_s32(x.v[3]));
  vst1q_s8(p, vcombine_s8(vqmovn_s16(low), vqmovn_s16(high)));
}

// 64 integers from 0 to 254 as dot_counts takes them: less kCountsMiddle.
inline void store_counts(uint8_t* p, const I32x16 (&x)[4]) {
  for (int i = 0; i < 4; ++i) {
    store_i8(reinterpret_cast<int8_t*>(p) + 16 * i, sub(x[i], broadcast_int(kCountsMiddle)));
  }
}

inline U8x64 load_bytes(const uint8_t* p) {
  return quarters<U8x64>([&](int i) { return vld1q_u8(p + 16 * i); });
}
// Bits [From, From + N) of each byte, moved to [To, To + N).
template <int From, int N, int To>
inline uint8x16_t bits_of(uint8x16_t bytes) {
  const uint8x16_t mask = vdupq_n_u8(((1 << N) - 1) << To);
  if constexpr (From < To) return vandq_u8(vshlq_n_u8(bytes, To - From), mask);
  if constexpr (From > To && From + N == 8 && To == 0) return vshrq_n_u8(bytes, From);
  if constexpr (From > To) return vandq_u8(vshrq_n_u8(bytes, From - To), mask);
  return vandq_u8(bytes, mask);
}
template <int From, int N, int To>
inline U8x64 bits_of(U8x64 bytes) {
  return quarters<U8x64>([&](int i) { return bits_of<From, N, To>(bytes.v[i]); });
}
// x with these bits where it has zeros.
template <int From, int N, int To>
inline U8x64 or_bits_of(U8x64 x, U8x64 bytes) {
  return quarters<U8x64>([&](int i) { return vorrq_u8(x.v[i], bits_of<From, N, To>(bytes.v[i])); });
}
// Of 16 bytes those that the indices, below 16, name.
inline U8x64 look_up(const uint8_t* table, U8x64 indices) {
  const uint8x16_t values = vld1q_u8(table);
  return quarters<U8x64>([&](int i) { return vqtbl1q_u8(values, indices.v[i]); });
}
// Signed bytes in the form that dot_signed takes: as they are.
inline U8x64 prepare_signed(U8x64 x) {
  return x;
}
// sum[i] += w[4i..4i+3] . the four signed bytes of a, w as signed bytes.
inline I32x16 dot_signed(I32x16 sum, U8x64 w, int32_t a) {
  const int8x16_t four = vreinterpretq_s8_s32(vdupq_n_s32(a));
  return quarters<I32x16>(
      [&](int i) { return vdotq_s32(sum.v[i], vreinterpretq_s8_u8(w.v[i]), four); });
}
// w at most 127.
inline I32x16 dot(I32x16 sum, U8x64 w, int32_t a) {
  return dot_signed(sum, w, a);
}
// Of four bytes in memory.
inline I32x16 dot(I32x16 sum, U8x64 w, const int32_t* a) {
  return dot(sum, w, *a);
}
inline I32x16 dot_signed(I32x16 sum, U8x64 w, const int32_t* a) {
  return dot_signed(sum, w, *a);
}
// Four bytes that several products read.
inline int32_t shared_word(const int32_t* a) {
  return *a;
}
inline I32x16 dot_counts(I32x16 sum, U8x64 w, const int32_t* counts) {
  return dot_signed(sum, w, *counts);
}

}  // namespace
}  // namespace bp::cpu::neon
