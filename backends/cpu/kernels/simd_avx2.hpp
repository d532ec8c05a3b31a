#pragma once
// Sixteen lanes as two 256-bit registers. Needs AVX2, FMA and F16C; for the namespace avx2_vnni
// also AVX-VNNI, whose byte products are one instruction.
// Included by the kernels of these instruction sets alone; everything has internal linkage.

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

#include "backends/cpu/kernels/unroll.hpp"

#ifdef __AVXVNNI__
#define BP_CPU_ISA avx2_vnni
#else
#define BP_CPU_ISA avx2
#endif

namespace bp::cpu::BP_CPU_ISA {
namespace {

inline constexpr uint32_t kPairedPanel = UINT32_MAX;  // strips are multiplied one by one
inline constexpr bool kIsTuned = true;                // or one Tuning for all
inline constexpr bool kUnpacks = true;                // strips that many rows meet
inline constexpr bool kManyRegisters = false;
inline constexpr uint32_t kFloatRows = 2;
inline constexpr uint32_t kFloatColumns = 3;
inline constexpr uint32_t kFloatQueries = 6;
inline constexpr int32_t kSumStart = 0;  // sums of products are converted
inline constexpr float kSumStartValue = 0;
inline constexpr uint32_t kTablePanel = UINT32_MAX;
#ifdef __AVXVNNI__
inline constexpr uint32_t kMaxPanel = 4;
inline constexpr bool kSignedAsUnsigned = true;
inline constexpr int32_t kCountsMiddle = 0;
inline constexpr bool kSumsPairs = false;
#else
inline constexpr uint32_t kMaxPanel = 6;
inline constexpr bool kSignedAsUnsigned = false;
inline constexpr int32_t kCountsMiddle = 127;
inline constexpr bool kSumsPairs = true;
#endif

struct F32x16 {
  __m256 a, b;
};
struct I32x16 {
  __m256i a, b;
};
struct Bf16Pairs {
  F32x16 even, odd;
};
struct U8x64 {
  __m256i a, b;
};

inline F32x16 zero() {
  return {_mm256_setzero_ps(), _mm256_setzero_ps()};
}
inline F32x16 broadcast(float x) {
  return {_mm256_set1_ps(x), _mm256_set1_ps(x)};
}
inline F32x16 load(const float* p) {
  return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
}
inline void store(float* p, F32x16 x) {
  _mm256_storeu_ps(p, x.a);
  _mm256_storeu_ps(p + 8, x.b);
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
inline F32x16 add(F32x16 x, F32x16 y) {
  return {_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)};
}
inline F32x16 sub(F32x16 x, F32x16 y) {
  return {_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)};
}
inline F32x16 mul(F32x16 x, F32x16 y) {
  return {_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)};
}
inline F32x16 div(F32x16 x, F32x16 y) {
  return {_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b)};
}
inline F32x16 fma(F32x16 x, F32x16 y, F32x16 z) {
  return {_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)};
}
// The second operand where one of the two is NaN.
inline F32x16 max(F32x16 x, F32x16 y) {
  return {_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b)};
}
inline F32x16 min(F32x16 x, F32x16 y) {
  return {_mm256_min_ps(x.a, y.a), _mm256_min_ps(x.b, y.b)};
}
inline F32x16 round(F32x16 x) {
  constexpr int mode = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  return {_mm256_round_ps(x.a, mode), _mm256_round_ps(x.b, mode)};
}
// y where x < limit, else z.
inline F32x16 where_less(F32x16 x, F32x16 limit, F32x16 y, F32x16 z) {
  return {_mm256_blendv_ps(z.a, y.a, _mm256_cmp_ps(x.a, limit.a, _CMP_LT_OQ)),
          _mm256_blendv_ps(z.b, y.b, _mm256_cmp_ps(x.b, limit.b, _CMP_LT_OQ))};
}
// Whether x < limit in all lanes of all four.
inline bool all_less(const F32x16 (&x)[4], F32x16 limit) {
  __m256 less = _mm256_cmp_ps(x[0].a, limit.a, _CMP_LT_OQ);
  for (const F32x16& lanes : x) {
    less = _mm256_and_ps(less, _mm256_cmp_ps(lanes.a, limit.a, _CMP_LT_OQ));
    less = _mm256_and_ps(less, _mm256_cmp_ps(lanes.b, limit.b, _CMP_LT_OQ));
  }
  return _mm256_movemask_ps(less) == 0xff;
}
inline __m256 between(__m256i lane, int first, int end) {
  const __m256i below = _mm256_cmpgt_epi32(_mm256_set1_epi32(first), lane);
  const __m256i inside = _mm256_cmpgt_epi32(_mm256_set1_epi32(end), lane);
  return _mm256_castsi256_ps(_mm256_andnot_si256(below, inside));
}
// Lanes first <= i < end of x, others of y.
inline F32x16 where_between(int first, int end, F32x16 x, F32x16 y) {
  const __m256i low = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  const __m256i high = _mm256_setr_epi32(8, 9, 10, 11, 12, 13, 14, 15);
  return {_mm256_blendv_ps(y.a, x.a, between(low, first, end)),
          _mm256_blendv_ps(y.b, x.b, between(high, first, end))};
}
inline F32x16 abs(F32x16 x) {
  const __m256 sign = _mm256_set1_ps(-0.0f);
  return {_mm256_andnot_ps(sign, x.a), _mm256_andnot_ps(sign, x.b)};
}
inline F32x16 copy_sign(F32x16 magnitude, F32x16 from) {
  const __m256 sign = _mm256_set1_ps(-0.0f);
  return {_mm256_or_ps(_mm256_andnot_ps(sign, magnitude.a), _mm256_and_ps(sign, from.a)),
          _mm256_or_ps(_mm256_andnot_ps(sign, magnitude.b), _mm256_and_ps(sign, from.b))};
}
inline __m256 power_of_two(__m256i n) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(n, _mm256_set1_epi32(127)), 23));
}
inline __m256 scale_by_power_of_two(__m256 x, __m256 n) {
  const __m256i whole = _mm256_cvtps_epi32(n);
  const __m256i half = _mm256_srai_epi32(whole, 1);
  return _mm256_mul_ps(_mm256_mul_ps(x, power_of_two(half)),
                       power_of_two(_mm256_sub_epi32(whole, half)));
}
// x * 2^n for integral n in [-252, 252].
inline F32x16 scale_by_power_of_two(F32x16 x, F32x16 n) {
  return {scale_by_power_of_two(x.a, n.a), scale_by_power_of_two(x.b, n.b)};
}
inline float reduce_add(F32x16 x) {
  const __m256 a = _mm256_add_ps(x.a, x.b);
  const __m128 b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  const __m128 c = _mm_add_ps(b, _mm_movehl_ps(b, b));
  return _mm_cvtss_f32(_mm_add_ss(c, _mm_movehdup_ps(c)));
}
inline float reduce_max(F32x16 x) {
  const __m256 a = _mm256_max_ps(x.a, x.b);
  const __m128 b = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  const __m128 c = _mm_max_ps(b, _mm_movehl_ps(b, b));
  return _mm_cvtss_f32(_mm_max_ss(c, _mm_movehdup_ps(c)));
}

inline __m128i load_128(const void* p) {
  return _mm_loadu_si128(static_cast<const __m128i*>(p));
}
inline F32x16 load_f16(const uint16_t* p) {
  return {_mm256_cvtph_ps(load_128(p)), _mm256_cvtph_ps(load_128(p + 8))};
}
inline __m256 widen_bf16(__m128i x) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(x), 16));
}
inline F32x16 load_bf16(const uint16_t* p) {
  return {widen_bf16(load_128(p)), widen_bf16(load_128(p + 8))};
}
inline __m256 even_bf16(__m256i pairs) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(pairs, 16));
}
inline __m256 odd_bf16(__m256i pairs) {
  const __m256i mask = _mm256_set1_epi32(static_cast<int>(0xffff0000u));
  return _mm256_castsi256_ps(_mm256_and_si256(pairs, mask));
}
// Sixteen pairs, as they lie.
inline Bf16Pairs load_bf16_pairs(const uint16_t* p) {
  const __m256i low = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  const __m256i high = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + 16));
  return {{even_bf16(low), even_bf16(high)}, {odd_bf16(low), odd_bf16(high)}};
}
inline void store_f16(uint16_t* p, F32x16 x) {
  constexpr int mode = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(x.a, mode));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p + 8), _mm256_cvtps_ph(x.b, mode));
}
inline __m256i round_bf16(__m256 x) {
  const __m256i bits = _mm256_castps_si256(x);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  const __m256i up = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd);
  const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
  const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
  return _mm256_srli_epi32(_mm256_blendv_epi8(up, quiet, nan), 16);
}
inline void store_bf16(uint16_t* p, F32x16 x) {
  const __m256i packed = _mm256_packus_epi32(round_bf16(x.a), round_bf16(x.b));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm256_permute4x64_epi64(packed, 0xd8));
}
inline F32x16 load_u8(const uint8_t* p) {
  const __m128i x = load_128(p);
  return {_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(x)),
          _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_srli_si128(x, 8)))};
}
inline F32x16 load_i8(const uint8_t* p) {
  const __m128i x = load_128(p);
  return {_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(x)),
          _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(x, 8)))};
}

// Signed 16-bit numbers below zeros, as add_multiple takes them.
struct Factors {
  __m256i a, b;
};
inline Factors load_i8_factors(const uint8_t* p) {
  const __m128i x = load_128(p);
  const __m256i mask = _mm256_set1_epi32(0xffff);
  return {_mm256_and_si256(_mm256_cvtepi8_epi32(x), mask),
          _mm256_and_si256(_mm256_cvtepi8_epi32(_mm_srli_si128(x, 8)), mask)};
}
// Of the lower halves of 16 bytes.
inline Factors load_low_nibble_factors(const uint8_t* p) {
  const __m128i x = _mm_and_si128(load_128(p), _mm_set1_epi8(15));
  return {_mm256_cvtepu8_epi32(x), _mm256_cvtepu8_epi32(_mm_srli_si128(x, 8))};
}
// Two signed 16-bit numbers a lane, as add_pair_products takes them.
struct FactorPairs {
  __m256i a, b;
};
// Of the upper halves of 16 bytes at first, and at second.
inline FactorPairs load_high_nibble_pairs(const uint8_t* first, const uint8_t* second) {
  const auto high = [](const uint8_t* p) {
    return _mm_and_si128(_mm_srli_epi16(load_128(p), 4), _mm_set1_epi8(15));
  };
  const __m128i x = high(first), y = high(second);
  return {_mm256_cvtepu8_epi16(_mm_unpacklo_epi8(x, y)),
          _mm256_cvtepu8_epi16(_mm_unpackhi_epi8(x, y))};
}

inline I32x16 broadcast_int(int32_t x) {
  return {_mm256_set1_epi32(x), _mm256_set1_epi32(x)};
}
inline I32x16 add(I32x16 x, I32x16 y) {
  return {_mm256_add_epi32(x.a, y.a), _mm256_add_epi32(x.b, y.b)};
}
inline I32x16 sub(I32x16 x, I32x16 y) {
  return {_mm256_sub_epi32(x.a, y.a), _mm256_sub_epi32(x.b, y.b)};
}
template <int Bits>
inline I32x16 shift_left(I32x16 x) {
  return {_mm256_slli_epi32(x.a, Bits), _mm256_slli_epi32(x.b, Bits)};
}
template <int Bits>
inline I32x16 shift_right(I32x16 x) {
  return {_mm256_srai_epi32(x.a, Bits), _mm256_srai_epi32(x.b, Bits)};
}
// sum + x * factors, |x| below 2^15.
inline I32x16 add_multiple(I32x16 sum, I32x16 x, Factors factors) {
#ifdef __AVXVNNI__
  return {_mm256_dpwssd_avx_epi32(sum.a, x.a, factors.a),
          _mm256_dpwssd_avx_epi32(sum.b, x.b, factors.b)};
#else
  return {_mm256_add_epi32(sum.a, _mm256_madd_epi16(x.a, factors.a)),
          _mm256_add_epi32(sum.b, _mm256_madd_epi16(x.b, factors.b))};
#endif
}
// sum + the first of each pair * the lower 16 bits of x + the second * the upper.
inline I32x16 add_pair_products(I32x16 sum, FactorPairs pairs, int32_t x) {
  const __m256i both = _mm256_set1_epi32(x);
  return {_mm256_add_epi32(sum.a, _mm256_madd_epi16(pairs.a, both)),
          _mm256_add_epi32(sum.b, _mm256_madd_epi16(pairs.b, both))};
}
inline F32x16 to_float(I32x16 x) {
  return {_mm256_cvtepi32_ps(x.a), _mm256_cvtepi32_ps(x.b)};
}
// The floats that have these bits.
inline F32x16 float_of_bits(I32x16 x) {
  return {_mm256_castsi256_ps(x.a), _mm256_castsi256_ps(x.b)};
}
// The bits of |x|, which order like the values, NaN above all.
inline I32x16 magnitude_bits(F32x16 x) {
  const F32x16 y = abs(x);
  return {_mm256_castps_si256(y.a), _mm256_castps_si256(y.b)};
}
inline I32x16 max(I32x16 x, I32x16 y) {
  return {_mm256_max_epi32(x.a, y.a), _mm256_max_epi32(x.b, y.b)};
}
inline int32_t reduce_max(I32x16 x) {
  const __m256i a = _mm256_max_epi32(x.a, x.b);
  const __m128i b = _mm_max_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
  const __m128i c = _mm_max_epi32(b, _mm_shuffle_epi32(b, 0x4e));
  return _mm_cvtsi128_si32(_mm_max_epi32(c, _mm_shuffle_epi32(c, 0xb1)));
}
inline int32_t reduce_add(I32x16 x) {
  const __m256i a = _mm256_add_epi32(x.a, x.b);
  const __m128i b = _mm_add_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
  const __m128i c = _mm_add_epi32(b, _mm_shuffle_epi32(b, 0x4e));
  return _mm_cvtsi128_si32(_mm_add_epi32(c, _mm_shuffle_epi32(c, 0xb1)));
}
// Lane i: the largest of x[i]. What other lanes hold is not said.
inline I32x16 reduce_max_each(const I32x16 (&x)[4]) {
  __m256i halves[4];
  BP_UNROLL for (int i = 0; i < 4; ++i) halves[i] = _mm256_max_epi32(x[i].a, x[i].b);
  const __m256i ab = _mm256_max_epi32(_mm256_unpacklo_epi32(halves[0], halves[1]),
                                      _mm256_unpackhi_epi32(halves[0], halves[1]));
  const __m256i cd = _mm256_max_epi32(_mm256_unpacklo_epi32(halves[2], halves[3]),
                                      _mm256_unpackhi_epi32(halves[2], halves[3]));
  const __m256i all =
      _mm256_max_epi32(_mm256_unpacklo_epi64(ab, cd), _mm256_unpackhi_epi64(ab, cd));
  const __m256i most = _mm256_max_epi32(all, _mm256_permute2x128_si256(all, all, 1));
  return {most, most};
}
// Lane 2 i and lane 2 i + 1 change places.
inline I32x16 swap_neighbours(I32x16 x) {
  return {_mm256_shuffle_epi32(x.a, 0xb1), _mm256_shuffle_epi32(x.b, 0xb1)};
}
// Lane i holds all lanes of x[i], of 16 vectors, folded by op, for which their order is the same.
template <class Op>
inline I32x16 reduce_each(const I32x16* x, Op&& op) {
  I32x16 ones[8], twos[4], fours[2];  // lanes of so many vectors: x[0] to x[7] in a, others in b
  BP_UNROLL for (int i = 0; i < 8; ++i) {
    ones[i] = op(I32x16{x[i].a, x[i + 8].a}, I32x16{x[i].b, x[i + 8].b});
  }
  BP_UNROLL for (int i = 0; i < 4; ++i) {
    const I32x16 x0 = ones[2 * i], x1 = ones[2 * i + 1];
    twos[i] = op(I32x16{_mm256_unpacklo_epi32(x0.a, x1.a), _mm256_unpacklo_epi32(x0.b, x1.b)},
                 I32x16{_mm256_unpackhi_epi32(x0.a, x1.a), _mm256_unpackhi_epi32(x0.b, x1.b)});
  }
  BP_UNROLL for (int i = 0; i < 2; ++i) {
    const I32x16 x0 = twos[2 * i], x1 = twos[2 * i + 1];
    fours[i] = op(I32x16{_mm256_unpacklo_epi64(x0.a, x1.a), _mm256_unpacklo_epi64(x0.b, x1.b)},
                  I32x16{_mm256_unpackhi_epi64(x0.a, x1.a), _mm256_unpackhi_epi64(x0.b, x1.b)});
  }
  const I32x16 x0 = fours[0], x1 = fours[1];
  return op(I32x16{_mm256_permute2x128_si256(x0.a, x1.a, 0x20),
                   _mm256_permute2x128_si256(x0.b, x1.b, 0x20)},
            I32x16{_mm256_permute2x128_si256(x0.a, x1.a, 0x31),
                   _mm256_permute2x128_si256(x0.b, x1.b, 0x31)});
}
// Nearest integers; what is no int32 becomes the smallest.
inline I32x16 to_int(F32x16 x) {
  return {_mm256_cvtps_epi32(x.a), _mm256_cvtps_epi32(x.b)};
}
inline void store_ints(int32_t* p, I32x16 x) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), x.a);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p + 8), x.b);
}
inline __m256i saturated_shorts(I32x16 x) {
  return _mm256_permute4x64_epi64(_mm256_packs_epi32(x.a, x.b), 0xd8);
}
inline void store_i16(int16_t* p, I32x16 x) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), saturated_shorts(x));
}
inline void store_i8(int8_t* p, I32x16 x) {
  const __m256i words = saturated_shorts(x);
  const __m128i low = _mm256_castsi256_si128(words);
  const __m128i bytes = _mm_packs_epi16(low, _mm256_extracti128_si256(words, 1));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), bytes);
}
// 64 integers from 0 to 254 as dot_counts takes them: less kCountsMiddle.
inline void store_counts(uint8_t* p, const I32x16 (&x)[4]) {
  BP_UNROLL for (int i = 0; i < 4; i += 2, p += 32) {
    const I32x16 low = x[i], high = x[i + 1];
#ifdef __AVXVNNI__
    const __m256i bytes =
        _mm256_packus_epi16(_mm256_packs_epi32(low.a, low.b), _mm256_packs_epi32(high.a, high.b));
#else
    const I32x16 middle = broadcast_int(kCountsMiddle);
    const I32x16 less = sub(low, middle), more = sub(high, middle);
    const __m256i bytes =
        _mm256_packs_epi16(_mm256_packs_epi32(less.a, less.b), _mm256_packs_epi32(more.a, more.b));
#endif
    // By lanes of 128 bits: four bytes each of low.a, low.b, high.a and high.b.
    const __m256i words = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm256_permutevar8x32_epi32(bytes, words));
  }
}

inline U8x64 load_bytes(const uint8_t* p) {
  return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)),
          _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + 32))};
}
inline void store_bytes(uint8_t* p, U8x64 x) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), x.a);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p + 32), x.b);
}
inline U8x64 sub_bytes(U8x64 x, int offset) {
  const __m256i offsets = _mm256_set1_epi8(static_cast<char>(offset));
  return {_mm256_sub_epi8(x.a, offsets), _mm256_sub_epi8(x.b, offsets)};
}
// Bits [From, From + N) of each byte, moved to [To, To + N).
template <int From, int N, int To>
inline __m256i bits_of(__m256i bytes) {
  const __m256i mask = _mm256_set1_epi8(static_cast<char>(((1 << N) - 1) << To));
  if constexpr (From < To) return _mm256_and_si256(_mm256_slli_epi16(bytes, To - From), mask);
  if constexpr (From > To) return _mm256_and_si256(_mm256_srli_epi16(bytes, From - To), mask);
  return _mm256_and_si256(bytes, mask);
}
template <int From, int N, int To>
inline U8x64 bits_of(U8x64 bytes) {
  return {bits_of<From, N, To>(bytes.a), bits_of<From, N, To>(bytes.b)};
}
// x with these bits where it has zeros.
template <int From, int N, int To>
inline U8x64 or_bits_of(U8x64 x, U8x64 bytes) {
  return {_mm256_or_si256(x.a, bits_of<From, N, To>(bytes.a)),
          _mm256_or_si256(x.b, bits_of<From, N, To>(bytes.b))};
}
// Of 16 bytes, aligned to 16, those that the indices, below 16, name.
inline U8x64 look_up(const uint8_t* table, U8x64 indices) {
  const __m256i values =
      _mm256_broadcastsi128_si256(_mm_load_si128(reinterpret_cast<const __m128i*>(table)));
  return {_mm256_shuffle_epi8(values, indices.a), _mm256_shuffle_epi8(values, indices.b)};
}
#ifdef __AVXVNNI__
// Signed bytes in the form that dot_signed takes: moved up by 128.
inline U8x64 prepare_signed(U8x64 x) {
  const __m256i offset = _mm256_set1_epi8(-128);
  return {_mm256_xor_si256(x.a, offset), _mm256_xor_si256(x.b, offset)};
}
// sum[i] += w[4i..4i+3] . the four signed bytes of a.
inline I32x16 dot(I32x16 sum, U8x64 w, int32_t a) {
  const __m256i four = _mm256_set1_epi32(a);
  return {_mm256_dpbusd_avx_epi32(sum.a, w.a, four), _mm256_dpbusd_avx_epi32(sum.b, w.b, four)};
}
inline I32x16 dot_signed(I32x16 sum, U8x64 w, int32_t a) {
  return dot(sum, w, a);
}
// sum += unsigned bytes times signed ones, in place, without the moves between registers that gcc
// 12 gives the intrinsic in attention's loops. (Strips are multiplied 3 % faster with those.)
inline void add_dot(__m256i& sum, __m256i unsigned_bytes, __m256i signed_bytes) {
  asm("%{vex%} vpdpbusd %2, %1, %0" : "+x"(sum) : "x"(unsigned_bytes), "x"(signed_bytes));
}
// Four bytes that several products read.
inline I32x16 shared_word(const int32_t* a) {
  return broadcast_int(*a);
}
// sum[i] += w[4i..4i+3] . the four signed bytes of a[i].
inline I32x16 dot(I32x16 sum, U8x64 w, I32x16 a) {
  add_dot(sum.a, w.a, a.a);
  add_dot(sum.b, w.b, a.b);
  return sum;
}
inline I32x16 dot_signed(I32x16 sum, U8x64 w, I32x16 a) {
  return dot(sum, w, a);
}
// sum[i] += the signed bytes w[4i..4i+3] . the four bytes of counts.
inline I32x16 dot_counts(I32x16 sum, U8x64 w, const int32_t* counts) {
  const __m256i four = _mm256_set1_epi32(*counts);
  add_dot(sum.a, four, w.a);
  add_dot(sum.b, four, w.b);
  return sum;
}
#else
// Signed bytes in the form that dot_signed takes: as they are.
inline U8x64 prepare_signed(U8x64 x) {
  return x;
}
// Two sums of two products for each lane.
struct I16x32 {
  __m256i a, b;
};
// w times the four signed bytes of a, whose magnitude is at most 127; w at most 127: no pair
// saturates.
inline I16x32 multiply_pairs(U8x64 w, int32_t a) {
  const __m256i four = _mm256_set1_epi32(a);
  return {_mm256_maddubs_epi16(w.a, four), _mm256_maddubs_epi16(w.b, four)};
}
// |w| is at most 128: no pair saturates.
inline I16x32 multiply_signed_pairs(U8x64 w, int32_t a) {
  const __m256i four = _mm256_set1_epi32(a);
  return {_mm256_maddubs_epi16(_mm256_abs_epi8(w.a), _mm256_sign_epi8(four, w.a)),
          _mm256_maddubs_epi16(_mm256_abs_epi8(w.b), _mm256_sign_epi8(four, w.b))};
}
// Compilers that see a chain of sums put them off, and all products wait in memory meanwhile.
template <class Vectors>
inline Vectors add_now(Vectors sum) {
  asm("" : "+x"(sum.a), "+x"(sum.b));
  return sum;
}
// sum + multiply_pairs(w, a), one of n_rows such sums. Six rows' leave four registers to work with,
// and gcc spends more unless it is one piece.
template <uint32_t n_rows>
inline I16x32 add_multiplied_pairs(I16x32 sum, U8x64 w, const int32_t& a) {
  if constexpr (n_rows <= 4) {
    const I16x32 pairs = multiply_pairs(w, a);
    return add_now(I16x32{_mm256_add_epi16(sum.a, pairs.a), _mm256_add_epi16(sum.b, pairs.b)});
  } else {
    __m256i four, pairs;
    asm("vpbroadcastd %[a], %[four]\n\t"
        "vpmaddubsw %[four], %[wa], %[pairs]\n\t"
        "vpmaddubsw %[four], %[wb], %[four]\n\t"
        "vpaddw %[pairs], %[sa], %[sa]\n\t"
        "vpaddw %[four], %[sb], %[sb]"
        : [sa] "+x"(sum.a), [sb] "+x"(sum.b), [four] "=&x"(four), [pairs] "=&x"(pairs)
        : [wa] "x"(w.a), [wb] "x"(w.b), [a] "m"(a));
    return sum;
  }
}
// sum + both sums of each lane.
inline I32x16 add_pairs(I32x16 sum, I16x32 pairs) {
  const __m256i ones = _mm256_set1_epi16(1);
  return add_now(I32x16{_mm256_add_epi32(sum.a, _mm256_madd_epi16(pairs.a, ones)),
                        _mm256_add_epi32(sum.b, _mm256_madd_epi16(pairs.b, ones))});
}
// sum[i] += w[4i..4i+3] . the four signed bytes of a.
inline I32x16 dot(I32x16 sum, U8x64 w, int32_t a) {
  return add_pairs(sum, multiply_pairs(w, a));
}
inline I32x16 dot_signed(I32x16 sum, U8x64 w, int32_t a) {
  return add_pairs(sum, multiply_signed_pairs(w, a));
}
inline I32x16 dot_counts(I32x16 sum, U8x64 w, const int32_t* counts) {
  return dot_signed(sum, w, *counts);
}
// Four bytes that several products read.
inline int32_t shared_word(const int32_t* a) {
  return *a;
}
#endif

// Of four bytes in memory.
inline I32x16 dot(I32x16 sum, U8x64 w, const int32_t* a) {
  return dot(sum, w, *a);
}
inline I32x16 dot_signed(I32x16 sum, U8x64 w, const int32_t* a) {
  return dot_signed(sum, w, *a);
}

}  // namespace
}  // namespace bp::cpu::BP_CPU_ISA
