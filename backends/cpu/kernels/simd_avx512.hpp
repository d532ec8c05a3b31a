#pragma once
// Sixteen lanes as one 512-bit register. Needs AVX-512 F, BW, VL, DQ and VNNI.
// Included by the kernels of this instruction set alone; everything has internal linkage.

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

#include "backends/cpu/kernels/unroll.hpp"

#define BP_CPU_ISA avx512

namespace bp::cpu::avx512 {
namespace {

inline constexpr uint32_t kMaxPanel = 6;
inline constexpr uint32_t kPairedPanel = 2;  // rows from which strips are multiplied in pairs
inline constexpr bool kIsTuned = true;       // or one Tuning for all
inline constexpr bool kUnpacks = true;       // strips that many rows meet
inline constexpr bool kManyRegisters = true;
inline constexpr uint32_t kFloatRows = 4;     // weight rows of a float tile
inline constexpr uint32_t kFloatColumns = 6;  // activation rows of a float tile
inline constexpr uint32_t kFloatQueries = 4;
inline constexpr bool kSignedAsUnsigned = true;
inline constexpr int32_t kCountsMiddle = 0;
inline constexpr bool kSumsPairs = false;
inline constexpr uint32_t kTablePanel = 3;  // rows from which tables of multiples pay
// Integer sums, which are below 2^22, begin at the bits of the float 1.5 * 2^23 and end at those of
// kSumStartValue + sum: the product with a scale takes that off again, and nothing is converted.
inline constexpr int32_t kSumStart = 0x4b400000;
inline constexpr float kSumStartValue = 12582912.0f;

struct F32x16 {
  __m512 v;
};
struct I32x16 {
  __m512i v;
};
struct Bf16Pairs {
  F32x16 even, odd;
};
struct U8x64 {
  __m512i v;
};

inline F32x16 zero() {
  return {_mm512_setzero_ps()};
}
inline F32x16 broadcast(float x) {
  return {_mm512_set1_ps(x)};
}
inline F32x16 load(const float* p) {
  return {_mm512_loadu_ps(p)};
}
inline void store(float* p, F32x16 x) {
  _mm512_storeu_ps(p, x.v);
}
// Lanes from n on are zero and their memory is not touched. Without a mask where n is known to be a
// register's: what was stored with one cannot be loaded again at once.
inline F32x16 load_first(const float* p, size_t n) {
  if (__builtin_constant_p(n) && n == 1) return {_mm512_zextps128_ps512(_mm_load_ss(p))};
  if (__builtin_constant_p(n) && n == 4) return {_mm512_zextps128_ps512(_mm_loadu_ps(p))};
  return {_mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << n) - 1), p)};
}
inline void store_first(float* p, F32x16 x, size_t n) {
  if (__builtin_constant_p(n) && n == 1) return _mm_store_ss(p, _mm512_castps512_ps128(x.v));
  if (__builtin_constant_p(n) && n == 4) return _mm_storeu_ps(p, _mm512_castps512_ps128(x.v));
  _mm512_mask_storeu_ps(p, static_cast<__mmask16>((1u << n) - 1), x.v);
}
inline F32x16 add(F32x16 a, F32x16 b) {
  return {_mm512_add_ps(a.v, b.v)};
}
inline F32x16 sub(F32x16 a, F32x16 b) {
  return {_mm512_sub_ps(a.v, b.v)};
}
inline F32x16 mul(F32x16 a, F32x16 b) {
  return {_mm512_mul_ps(a.v, b.v)};
}
inline F32x16 div(F32x16 a, F32x16 b) {
  return {_mm512_div_ps(a.v, b.v)};
}
inline F32x16 fma(F32x16 a, F32x16 b, F32x16 c) {
  return {_mm512_fmadd_ps(a.v, b.v, c.v)};
}
// The second operand where one of the two is NaN.
inline F32x16 max(F32x16 a, F32x16 b) {
  return {_mm512_max_ps(a.v, b.v)};
}
inline F32x16 min(F32x16 a, F32x16 b) {
  return {_mm512_min_ps(a.v, b.v)};
}
inline F32x16 round(F32x16 x) {
  return {_mm512_roundscale_ps(x.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
// y where x < limit, else z.
inline F32x16 where_less(F32x16 x, F32x16 limit, F32x16 y, F32x16 z) {
  return {_mm512_mask_blend_ps(_mm512_cmp_ps_mask(x.v, limit.v, _CMP_LT_OQ), z.v, y.v)};
}
// Whether x < limit in all lanes of all four.
inline bool all_less(const F32x16 (&x)[4], F32x16 limit) {
  __mmask16 less = 0xffff;
  for (const F32x16& lanes : x) {
    less = _mm512_mask_cmp_ps_mask(less, lanes.v, limit.v, _CMP_LT_OQ);
  }
  return less == 0xffff;
}
// Lanes first <= i < end of x, others of y.
inline F32x16 where_between(int first, int end, F32x16 x, F32x16 y) {
  const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  const __mmask16 m = _mm512_cmpge_epi32_mask(lane, _mm512_set1_epi32(first)) &
                      _mm512_cmplt_epi32_mask(lane, _mm512_set1_epi32(end));
  return {_mm512_mask_blend_ps(m, y.v, x.v)};
}
inline F32x16 abs(F32x16 x) {
  return {_mm512_abs_ps(x.v)};
}
inline F32x16 copy_sign(F32x16 magnitude, F32x16 sign) {
  const __m512i mask = _mm512_set1_epi32(static_cast<int>(0x80000000u));
  const __m512i bits = _mm512_or_si512(_mm512_andnot_si512(mask, _mm512_castps_si512(magnitude.v)),
                                       _mm512_and_si512(mask, _mm512_castps_si512(sign.v)));
  return {_mm512_castsi512_ps(bits)};
}
// x * 2^n for integral n in [-252, 252].
inline F32x16 scale_by_power_of_two(F32x16 x, F32x16 n) {
  return {_mm512_scalef_ps(x.v, n.v)};
}
inline float reduce_add(F32x16 x) {
  const __m256 a = _mm256_add_ps(_mm512_castps512_ps256(x.v), _mm512_extractf32x8_ps(x.v, 1));
  const __m128 b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  const __m128 c = _mm_add_ps(b, _mm_movehl_ps(b, b));
  return _mm_cvtss_f32(_mm_add_ss(c, _mm_movehdup_ps(c)));
}
inline float reduce_max(F32x16 x) {
  const __m256 a = _mm256_max_ps(_mm512_castps512_ps256(x.v), _mm512_extractf32x8_ps(x.v, 1));
  const __m128 b = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  const __m128 c = _mm_max_ps(b, _mm_movehl_ps(b, b));
  return _mm_cvtss_f32(_mm_max_ss(c, _mm_movehdup_ps(c)));
}
// Lane i of each quarter holds all lanes of x[i], of four vectors, folded by op, for which their
// order is the same.
template <class Op>
inline __m512i reduce_four(const __m512i (&x)[4], Op&& op) {
  const __m512i ab = op(_mm512_unpacklo_epi32(x[0], x[1]), _mm512_unpackhi_epi32(x[0], x[1]));
  const __m512i cd = op(_mm512_unpacklo_epi32(x[2], x[3]), _mm512_unpackhi_epi32(x[2], x[3]));
  const __m512i quarters = op(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd));
  const __m512i halves = op(quarters, _mm512_shuffle_i32x4(quarters, quarters, 0x4e));
  return op(halves, _mm512_shuffle_i32x4(halves, halves, 0xb1));
}
// Lane i: the largest of x[i]. What other lanes hold is not said.
inline F32x16 reduce_max_each(const F32x16 (&x)[4]) {
  const __m512i bits[4] = {_mm512_castps_si512(x[0].v), _mm512_castps_si512(x[1].v),
                           _mm512_castps_si512(x[2].v), _mm512_castps_si512(x[3].v)};
  return {_mm512_castsi512_ps(reduce_four(bits, [](__m512i a, __m512i b) {
    return _mm512_castps_si512(_mm512_max_ps(_mm512_castsi512_ps(a), _mm512_castsi512_ps(b)));
  }))};
}

inline F32x16 load_f16(const uint16_t* p) {
  return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
}
inline F32x16 widen_bf16(__m256i halves) {
  return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16))};
}
inline F32x16 load_bf16(const uint16_t* p) {
  return widen_bf16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
// Sixteen pairs, as they lie.
inline Bf16Pairs widen_bf16_pairs(__m512i pairs) {
  const __m512i odd = _mm512_and_si512(pairs, _mm512_set1_epi32(static_cast<int>(0xffff0000u)));
  return {{_mm512_castsi512_ps(_mm512_slli_epi32(pairs, 16))}, {_mm512_castsi512_ps(odd)}};
}
inline Bf16Pairs load_bf16_pairs(const uint16_t* p) {
  return widen_bf16_pairs(_mm512_loadu_si512(p));
}
inline void store_f16(uint16_t* p, F32x16 x) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                      _mm512_cvtps_ph(x.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
// In the low halves.
inline __m512i round_bf16(F32x16 x) {
  const __m512i bits = _mm512_castps_si512(x.v);
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  const __m512i up = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
  const __m512i quiet = _mm512_or_si512(bits, _mm512_set1_epi32(0x400000));
  const __mmask16 nan = _mm512_cmp_ps_mask(x.v, x.v, _CMP_UNORD_Q);
  return _mm512_srli_epi32(_mm512_mask_blend_epi32(nan, up, quiet), 16);
}
inline void store_bf16(uint16_t* p, F32x16 x) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtepi32_epi16(round_bf16(x)));
}
// Every second element from p on, which lies in 64 bytes that begin at a multiple of 4: others are
// not touched.
inline void store_bf16_apart(uint16_t* p, F32x16 x) {
  const auto odd = static_cast<int>(reinterpret_cast<uintptr_t>(p) / sizeof *p % 2);
  const __m512i halves = _mm512_sll_epi32(round_bf16(x), _mm_cvtsi32_si128(16 * odd));
  _mm512_mask_storeu_epi16(p - odd, 0x55555555u << odd, halves);
}
inline F32x16 load_u8(const uint8_t* p) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return {_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(bytes))};
}
inline F32x16 load_i8(const uint8_t* p) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return {_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes))};
}

// Signed 16-bit numbers below zeros, as add_multiple takes them.
struct Factors {
  __m512i v;
};
inline Factors load_i8_factors(const uint8_t* p) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return {_mm512_and_si512(_mm512_cvtepi8_epi32(bytes), _mm512_set1_epi32(0xffff))};
}
// Of the lower halves of 16 bytes.
inline Factors load_low_nibble_factors(const uint8_t* p) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return {_mm512_and_si512(_mm512_cvtepu8_epi32(bytes), _mm512_set1_epi32(15))};
}

// Two signed 16-bit numbers a lane, as add_pair_products takes them.
struct FactorPairs {
  __m512i v;
};
// Of the upper halves of 16 bytes at first, and at second.
inline FactorPairs load_high_nibble_pairs(const uint8_t* first, const uint8_t* second) {
  const auto bytes = [](const uint8_t* p) {
    return _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  };
  const __m512i both = _mm512_or_si512(bytes(first), _mm512_slli_epi32(bytes(second), 16));
  return {_mm512_and_si512(_mm512_srli_epi32(both, 4), _mm512_set1_epi32(0x000f000f))};
}

inline I32x16 load_ints(const int32_t* p) {
  return {_mm512_loadu_si512(p)};
}
inline I32x16 broadcast_int(int32_t x) {
  return {_mm512_set1_epi32(x)};
}
inline I32x16 add(I32x16 a, I32x16 b) {
  return {_mm512_add_epi32(a.v, b.v)};
}
inline I32x16 sub(I32x16 a, I32x16 b) {
  return {_mm512_sub_epi32(a.v, b.v)};
}
template <int Bits>
inline I32x16 shift_left(I32x16 x) {
  return {_mm512_slli_epi32(x.v, Bits)};
}
template <int Bits>
inline I32x16 shift_right(I32x16 x) {
  return {_mm512_srai_epi32(x.v, Bits)};
}
// sum + x * factors, |x| below 2^15.
inline I32x16 add_multiple(I32x16 sum, I32x16 x, Factors factors) {
  return {_mm512_dpwssd_epi32(sum.v, x.v, factors.v)};
}
// sum + the first of each pair * the lower 16 bits of x + the second * the upper.
inline I32x16 add_pair_products(I32x16 sum, FactorPairs pairs, int32_t x) {
  return {_mm512_dpwssd_epi32(sum.v, pairs.v, _mm512_set1_epi32(x))};
}
inline F32x16 to_float(I32x16 x) {
  return {_mm512_cvtepi32_ps(x.v)};
}
// The floats that have these bits.
inline F32x16 float_of_bits(I32x16 x) {
  return {_mm512_castsi512_ps(x.v)};
}
// The bits of |x|, which order like the values, NaN above all.
inline I32x16 magnitude_bits(F32x16 x) {
  return {_mm512_and_si512(_mm512_castps_si512(x.v), _mm512_set1_epi32(0x7fffffff))};
}
inline I32x16 max(I32x16 a, I32x16 b) {
  return {_mm512_max_epi32(a.v, b.v)};
}
inline int32_t reduce_max(I32x16 x) {
  return _mm512_reduce_max_epi32(x.v);
}
inline int32_t reduce_add(I32x16 x) {
  return _mm512_reduce_add_epi32(x.v);
}
// Lane i: the largest of x[i]. What other lanes hold is not said.
inline I32x16 reduce_max_each(const I32x16 (&x)[4]) {
  return {reduce_four({x[0].v, x[1].v, x[2].v, x[3].v},
                      [](__m512i a, __m512i b) { return _mm512_max_epi32(a, b); })};
}
// Lane 2 i and lane 2 i + 1 change places.
inline I32x16 swap_neighbours(I32x16 x) {
  return {_mm512_shuffle_epi32(x.v, static_cast<_MM_PERM_ENUM>(0xb1))};
}
// Lane i holds all lanes of x[i], of 16 vectors, folded by op, for which their order is the same.
template <class Op>
inline I32x16 reduce_each(const I32x16* x, Op&& op) {
  I32x16 twos[8], fours[4];  // lanes of so many vectors, one after another
  BP_UNROLL for (int i = 0; i < 8; ++i) {
    const __m512i a = x[2 * i].v, b = x[2 * i + 1].v;
    twos[i] = op(I32x16{_mm512_unpacklo_epi32(a, b)}, I32x16{_mm512_unpackhi_epi32(a, b)});
  }
  BP_UNROLL for (int i = 0; i < 4; ++i) {
    const __m512i a = twos[2 * i].v, b = twos[2 * i + 1].v;
    fours[i] = op(I32x16{_mm512_unpacklo_epi64(a, b)}, I32x16{_mm512_unpackhi_epi64(a, b)});
  }
  const auto fold_quarters = [&](I32x16 a, I32x16 b) {
    return op(I32x16{_mm512_shuffle_i32x4(a.v, b.v, 0x88)},
              I32x16{_mm512_shuffle_i32x4(a.v, b.v, 0xdd)});
  };
  return fold_quarters(fold_quarters(fours[0], fours[1]), fold_quarters(fours[2], fours[3]));
}
// Nearest integers; what is no int32 becomes the smallest.
inline I32x16 to_int(F32x16 x) {
  return {_mm512_cvtps_epi32(x.v)};
}
inline void store_i8(int8_t* p, I32x16 x) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtsepi32_epi8(x.v));
}
// 64 integers from 0 to 254 as dot_counts takes them: less kCountsMiddle.
inline void store_counts(uint8_t* p, const I32x16 (&x)[4]) {
  const __m512i words = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  const __m512i low = _mm512_packus_epi32(x[0].v, x[1].v);
  const __m512i high = _mm512_packus_epi32(x[2].v, x[3].v);
  const __m512i bytes = _mm512_packus_epi16(low, high);  // by lanes of 128 bits
  _mm512_storeu_si512(p, _mm512_permutexvar_epi32(words, bytes));
}
inline void store_ints(int32_t* p, I32x16 x) {
  _mm512_storeu_si512(p, x.v);
}
inline void store_i16(int16_t* p, I32x16 x) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtsepi32_epi16(x.v));
}

inline U8x64 load_bytes(const uint8_t* p) {
  return {_mm512_loadu_si512(p)};
}
inline void store_bytes(uint8_t* p, U8x64 x) {
  _mm512_storeu_si512(p, x.v);
}
inline U8x64 sub_bytes(U8x64 x, int offset) {
  return {_mm512_sub_epi8(x.v, _mm512_set1_epi8(static_cast<char>(offset)))};
}
// The bytes of each lane times its factor; of products the lower 8 bits.
inline U8x64 mul_bytes(U8x64 x, Factors factors) {
  const __m512i both = _mm512_or_si512(factors.v, _mm512_slli_epi32(factors.v, 16));
  const __m512i upper = _mm512_set1_epi16(static_cast<short>(0xff00));
  const __m512i odd = _mm512_mullo_epi16(_mm512_and_si512(x.v, upper), both);
  return {_mm512_or_si512(odd, _mm512_andnot_si512(upper, _mm512_mullo_epi16(x.v, both)))};
}
constexpr char byte_mask(int n, int from) {
  return static_cast<char>(((1 << n) - 1) << from);
}
template <int From, int To>
inline __m512i move_bits(__m512i bytes) {
  if constexpr (From < To) return _mm512_slli_epi16(bytes, To - From);
  if constexpr (From > To) return _mm512_srli_epi16(bytes, From - To);
  return bytes;
}
// Bits [From, From + N) of each byte, moved to [To, To + N), and x with them where it has zeros.
template <int From, int N, int To>
inline U8x64 bits_of(U8x64 bytes) {
  return {_mm512_and_si512(move_bits<From, To>(bytes.v), _mm512_set1_epi8(byte_mask(N, To)))};
}
template <int From, int N, int To>
inline U8x64 or_bits_of(U8x64 x, U8x64 bytes) {
  const __m512i moved = move_bits<From, To>(bytes.v);
  // x | (moved & mask)
  return {_mm512_ternarylogic_epi32(x.v, moved, _mm512_set1_epi8(byte_mask(N, To)), 0xf8)};
}
// A factor below 64 in each lane: its multiples by 0, 1, 2 and 3.
inline U8x64 multiples_of(Factors factors) {
  return {_mm512_mullo_epi32(factors.v, _mm512_set1_epi32(0x03020100))};
}
// Of each lane's multiples those that bits [2*I, 2*I + 2) of its bytes name.
template <int I>
inline U8x64 multiples_at(U8x64 multiples, U8x64 pairs) {
  const __m512i lane =
      _mm512_broadcast_i32x4(_mm_setr_epi32(0, 0x04040404, 0x08080808, 0x0c0c0c0c));
  const __m512i shifted = _mm512_srli_epi16(pairs.v, 2 * I);
  // (shifted & 3) | lane
  const __m512i at = _mm512_ternarylogic_epi32(shifted, _mm512_set1_epi8(3), lane, 0xea);
  return {_mm512_shuffle_epi8(multiples.v, at)};
}
// Of 16 bytes, aligned to 16, those that the indices, below 16, name.
inline U8x64 look_up(const uint8_t* table, U8x64 indices) {
  const __m128i values = _mm_load_si128(reinterpret_cast<const __m128i*>(table));
  return {_mm512_shuffle_epi8(_mm512_broadcast_i32x4(values), indices.v)};
}
// Signed bytes in the form that dot_signed takes: moved up by 128.
inline U8x64 prepare_signed(U8x64 x) {
  return {_mm512_xor_si512(x.v, _mm512_set1_epi8(-128))};
}
// sum[i] += w[4i..4i+3] . the four signed bytes of a.
inline I32x16 dot(I32x16 sum, U8x64 w, int32_t a) {
  return {_mm512_dpbusd_epi32(sum.v, w.v, _mm512_set1_epi32(a))};
}
inline I32x16 dot_signed(I32x16 sum, U8x64 w, int32_t a) {
  return dot(sum, w, a);
}
// The product itself reads a, which gcc 12 reads by an instruction of its own.
inline I32x16 dot(I32x16 sum, U8x64 w, const int32_t* a) {
  asm("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(sum.v) : "v"(w.v), "m"(*a));
  return sum;
}
inline I32x16 dot_signed(I32x16 sum, U8x64 w, const int32_t* a) {
  return dot(sum, w, a);
}
// Four bytes that several products read.
inline I32x16 shared_word(const int32_t* a) {
  return broadcast_int(*a);
}
// sum[i] += w[4i..4i+3] . the four signed bytes of a[i].
inline I32x16 dot(I32x16 sum, U8x64 w, I32x16 a) {
  asm("vpdpbusd %2, %1, %0" : "+v"(sum.v) : "v"(w.v), "v"(a.v));
  return sum;
}
inline I32x16 dot_signed(I32x16 sum, U8x64 w, I32x16 a) {
  return dot(sum, w, a);
}
// sum[i] += the signed bytes w[4i..4i+3] . the four bytes of counts. In place, without the moves
// between registers that gcc 12 gives the intrinsic in a loop, and counts from memory, which loads
// spread for nothing: of those that were just stored there it shuffles each from its register.
inline I32x16 dot_counts(I32x16 sum, U8x64 w, const int32_t* counts) {
  __m512i four;
  asm("vpbroadcastd %1, %0" : "=v"(four) : "m"(*counts));
  asm("vpdpbusd %2, %1, %0" : "+v"(sum.v) : "v"(four), "v"(w.v));
  return sum;
}

}  // namespace
}  // namespace bp::cpu::avx512
