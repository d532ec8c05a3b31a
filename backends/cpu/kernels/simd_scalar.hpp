#pragma once
// Sixteen lanes as the compiler's generic vectors, for every processor: what they become is the
// baseline's instructions (SSE2, NEON, or single numbers).
// Included by the kernels of this instruction set alone; everything has internal linkage.

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#define BP_CPU_ISA scalar

namespace bp::cpu::scalar {
namespace {

inline constexpr uint32_t kMaxPanel = 4;
inline constexpr uint32_t kPairedPanel = UINT32_MAX;  // strips are multiplied one by one
inline constexpr bool kIsTuned = false;               // or one Tuning for all
inline constexpr bool kUnpacks = false;               // strips that many rows meet
inline constexpr bool kManyRegisters = false;
inline constexpr uint32_t kFloatRows = 1;
inline constexpr uint32_t kFloatColumns = 2;
inline constexpr uint32_t kFloatQueries = 4;
inline constexpr bool kSignedAsUnsigned = false;
inline constexpr int32_t kCountsMiddle = 0;
inline constexpr bool kSumsPairs = false;
inline constexpr uint32_t kTablePanel = UINT32_MAX;
inline constexpr int32_t kSumStart = 0;  // sums of products are converted
inline constexpr float kSumStartValue = 0;

typedef float Floats __attribute__((vector_size(64)));
typedef int32_t Ints __attribute__((vector_size(64)));
typedef uint32_t Words __attribute__((vector_size(64)));
typedef uint64_t Longs __attribute__((vector_size(64)));
typedef int16_t Shorts __attribute__((vector_size(64)));
typedef uint8_t Bytes __attribute__((vector_size(64)));
typedef uint16_t HalfWords __attribute__((vector_size(32)));
typedef uint8_t HalfBytes __attribute__((vector_size(32)));
typedef int8_t HalfSignedBytes __attribute__((vector_size(32)));
typedef uint8_t QuarterBytes __attribute__((vector_size(16)));
typedef int8_t QuarterSignedBytes __attribute__((vector_size(16)));

struct F32x16 {
  Floats v;
};
struct I32x16 {
  Ints v;
};
struct Bf16Pairs {
  F32x16 even, odd;
};
struct U8x64 {
  Bytes v;
};

template <class Vector>
inline Vector read(const void* p) {
  Vector v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}
// a where the mask is set, else b.
inline Floats select(Ints mask, Floats a, Floats b) {
  return (Floats)(((Ints)a & mask) | ((Ints)b & ~mask));
}

inline F32x16 broadcast(float x) {
  return {x - Floats{}};
}
inline F32x16 zero() {
  return {Floats{}};
}
inline F32x16 load(const float* p) {
  return {read<Floats>(p)};
}
inline void store(float* p, F32x16 x) {
  __builtin_memcpy(p, &x.v, sizeof x.v);
}
// Lanes from n on are zero and their memory is not touched.
inline F32x16 load_first(const float* p, size_t n) {
  F32x16 x = zero();
  __builtin_memcpy(&x.v, p, n * sizeof(float));
  return x;
}
inline void store_first(float* p, F32x16 x, size_t n) {
  __builtin_memcpy(p, &x.v, n * sizeof(float));
}
inline F32x16 add(F32x16 a, F32x16 b) {
  return {a.v + b.v};
}
inline F32x16 sub(F32x16 a, F32x16 b) {
  return {a.v - b.v};
}
inline F32x16 mul(F32x16 a, F32x16 b) {
  return {a.v * b.v};
}
inline F32x16 div(F32x16 a, F32x16 b) {
  return {a.v / b.v};
}
// Rounds twice here.
inline F32x16 fma(F32x16 a, F32x16 b, F32x16 c) {
  return {a.v * b.v + c.v};
}
// The second operand where one of the two is NaN.
inline F32x16 max(F32x16 a, F32x16 b) {
  return {select(a.v > b.v, a.v, b.v)};
}
inline F32x16 min(F32x16 a, F32x16 b) {
  return {select(a.v < b.v, a.v, b.v)};
}
// For |x| below 2^22: above that, adding leaves no room for the fraction's neighbours.
inline F32x16 round(F32x16 x) {
  constexpr float shift = 12582912.0f;  // 1.5 * 2^23
  return {(x.v + shift) - shift};
}
// y where x < limit, else z.
inline F32x16 where_less(F32x16 x, F32x16 limit, F32x16 y, F32x16 z) {
  return {select(x.v < limit.v, y.v, z.v)};
}
// Whether x < limit in all lanes of all four.
inline bool all_less(const F32x16 (&x)[4], F32x16 limit) {
  Ints less = x[0].v < limit.v;
  for (const F32x16& lanes : x) less &= lanes.v < limit.v;
  uint64_t words[8], all = ~uint64_t{0};
  __builtin_memcpy(words, &less, sizeof words);
  for (const uint64_t word : words) all &= word;
  return all == ~uint64_t{0};
}
// Lanes first <= i < end of x, others of y.
inline F32x16 where_between(int first, int end, F32x16 x, F32x16 y) {
  const Ints lane = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  return {select((lane >= first) & (lane < end), x.v, y.v)};
}
inline F32x16 abs(F32x16 x) {
  return {(Floats)((Ints)x.v & 0x7fffffff)};
}
inline F32x16 copy_sign(F32x16 magnitude, F32x16 sign) {
  return {(Floats)(((Ints)magnitude.v & 0x7fffffff) | ((Ints)sign.v & INT32_MIN))};
}
inline Floats power_of_two(Ints n) {
  return (Floats)((n + 127) << 23);
}
// x * 2^n for integral n in [-252, 252].
inline F32x16 scale_by_power_of_two(F32x16 x, F32x16 n) {
  const Ints whole = __builtin_convertvector(n.v, Ints);
  const Ints half = whole >> 1;
  return {x.v * power_of_two(half) * power_of_two(whole - half)};
}
inline float reduce_add(F32x16 x) {
  float lanes[16];
  store(lanes, x);
  for (int half = 8; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) lanes[i] += lanes[i + half];
  }
  return lanes[0];
}
inline float reduce_max(F32x16 x) {
  float lanes[16];
  store(lanes, x);
  for (int half = 8; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i)
      lanes[i] = lanes[i] > lanes[i + half] ? lanes[i] : lanes[i + half];
  }
  return lanes[0];
}

inline F32x16 load_f16(const uint16_t* p) {
  const Ints h = __builtin_convertvector(read<HalfWords>(p), Ints);
  const Ints magnitude = (h & 0x7fff) << 13;
  const Ints sign = (h & 0x8000) << 16;
  // Exponents differ by 112; multiplying makes subnormals normal.
  const Floats finite = (Floats)magnitude * 0x1p112f;
  const Floats infinite = (Floats)(magnitude | 0x7f800000);
  const Floats x = select(magnitude >= (0x7c00 << 13), infinite, finite);
  return {(Floats)((Ints)x | sign)};
}
inline F32x16 load_bf16(const uint16_t* p) {
  return {(Floats)(__builtin_convertvector(read<HalfWords>(p), Ints) << 16)};
}
// Sixteen pairs, as they lie.
inline Bf16Pairs load_bf16_pairs(const uint16_t* p) {
  const Words pairs = read<Words>(p);
  return {{(Floats)(pairs << 16)}, {(Floats)(pairs & 0xffff0000u)}};
}
inline float float_of(uint32_t bits) {
  float x;
  __builtin_memcpy(&x, &bits, sizeof x);
  return x;
}
inline uint32_t bits_of(float x) {
  uint32_t bits;
  __builtin_memcpy(&bits, &x, sizeof bits);
  return bits;
}
inline uint16_t narrow_f16(float x) {
  const uint32_t bits = bits_of(x);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  uint32_t half;
  if (magnitude > 0x7f800000u) {
    half = 0x7e00u | ((magnitude >> 13) & 0x3ffu);
  } else if (magnitude >= 0x47800000u) {
    half = 0x7c00u;
  } else if (magnitude < 0x38800000u) {
    half = bits_of(float_of(magnitude) + 0.5f) - 0x3f000000u;  // 2^-24 is the last place of 0.5
  } else {
    half = (magnitude + 0xfffu + ((magnitude >> 13) & 1) - 0x38000000u) >> 13;
  }
  return static_cast<uint16_t>(sign | half);
}
inline uint16_t narrow_bf16(float x) {
  const uint32_t bits = bits_of(x);
  if (x != x) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1)) >> 16);
}
inline void store_f16(uint16_t* p, F32x16 x) {
  for (int i = 0; i < 16; ++i) p[i] = narrow_f16(x.v[i]);
}
inline void store_bf16(uint16_t* p, F32x16 x) {
  for (int i = 0; i < 16; ++i) p[i] = narrow_bf16(x.v[i]);
}
inline F32x16 load_u8(const uint8_t* p) {
  return {__builtin_convertvector(__builtin_convertvector(read<QuarterBytes>(p), Ints), Floats)};
}
inline F32x16 load_i8(const uint8_t* p) {
  return {
      __builtin_convertvector(__builtin_convertvector(read<QuarterSignedBytes>(p), Ints), Floats)};
}

using Factors = I32x16;
inline Factors load_i8_factors(const uint8_t* p) {
  return {__builtin_convertvector(read<QuarterSignedBytes>(p), Ints)};
}
// Of the lower halves of 16 bytes.
inline Factors load_low_nibble_factors(const uint8_t* p) {
  return {__builtin_convertvector(read<QuarterBytes>(p), Ints) & 15};
}
// Two numbers a lane, as add_pair_products takes them.
struct FactorPairs {
  Ints first, second;
};
// Of the upper halves of 16 bytes at first, and at second.
inline FactorPairs load_high_nibble_pairs(const uint8_t* first, const uint8_t* second) {
  return {__builtin_convertvector(read<QuarterBytes>(first) >> 4, Ints),
          __builtin_convertvector(read<QuarterBytes>(second) >> 4, Ints)};
}

inline I32x16 broadcast_int(int32_t x) {
  return {x + Ints{}};
}
inline I32x16 add(I32x16 a, I32x16 b) {
  return {a.v + b.v};
}
inline I32x16 sub(I32x16 a, I32x16 b) {
  return {a.v - b.v};
}
template <int Bits>
inline I32x16 shift_left(I32x16 x) {
  return {(Ints)((Words)x.v << Bits)};
}
template <int Bits>
inline I32x16 shift_right(I32x16 x) {
  return {x.v >> Bits};
}
// sum + x * factors, |x| below 2^15.
inline I32x16 add_multiple(I32x16 sum, I32x16 x, Factors factors) {
  return {sum.v + x.v * factors.v};
}
// sum + the first of each pair * the lower 16 bits of x + the second * the upper.
inline I32x16 add_pair_products(I32x16 sum, FactorPairs pairs, int32_t x) {
  return {sum.v + pairs.first * static_cast<int16_t>(x) + pairs.second * (x >> 16)};
}
inline F32x16 to_float(I32x16 x) {
  return {__builtin_convertvector(x.v, Floats)};
}
// The floats that have these bits.
inline F32x16 float_of_bits(I32x16 x) {
  return {(Floats)x.v};
}
// The bits of |x|, which order like the values, NaN above all.
inline I32x16 magnitude_bits(F32x16 x) {
  return {(Ints)x.v & 0x7fffffff};
}
inline I32x16 max(I32x16 a, I32x16 b) {
  const Ints greater = a.v > b.v;
  return {(a.v & greater) | (b.v & ~greater)};
}
inline int32_t reduce_max(I32x16 x) {
  int32_t y = x.v[0];
  for (int i = 1; i < 16; ++i) y = x.v[i] > y ? x.v[i] : y;
  return y;
}
inline int32_t reduce_add(I32x16 x) {
  int32_t y = 0;
  for (int i = 0; i < 16; ++i) y += x.v[i];
  return y;
}
// Lane i: the largest of x[i]. What other lanes hold is not said.
inline I32x16 reduce_max_each(const I32x16 (&x)[4]) {
  I32x16 y = broadcast_int(0);
  for (int i = 0; i < 4; ++i) y.v[i] = reduce_max(x[i]);
  return y;
}
// Lane 2 i and lane 2 i + 1 change places.
inline I32x16 swap_neighbours(I32x16 x) {
  I32x16 y;
  for (int i = 0; i < 16; ++i) y.v[i] = x.v[i ^ 1];
  return y;
}
// Lane i holds all lanes of x[i], of 16 vectors, folded by op, for which their order is the same.
template <class Op>
inline I32x16 reduce_each(const I32x16* x, Op&& op) {
  // Vectors of lane i of each, which the compiler transposes.
  I32x16 lanes[16];
  for (int i = 0; i < 16; ++i) {
    for (int k = 0; k < 16; ++k) lanes[i].v[k] = x[k].v[i];
  }
  I32x16 y = lanes[0];
  for (int i = 1; i < 16; ++i) y = op(y, lanes[i]);
  return y;
}
// Nearest integers of what is below 2^22; of anything else some integer.
__attribute__((noinline)) inline I32x16 to_int(F32x16 x) {
  const F32x16 limit = broadcast(0x1p22f);
  const Ints fits = (round(x).v < limit.v) & (round(x).v > -limit.v);
  return {__builtin_convertvector(select(fits, round(x).v, Floats{}), Ints)};
}
inline void store_ints(int32_t* p, I32x16 x) {
  __builtin_memcpy(p, &x.v, sizeof x.v);
}
inline void store_i16(int16_t* p, I32x16 x) {
  for (int i = 0; i < 16; ++i) {
    p[i] = static_cast<int16_t>(x.v[i] < -32768 ? -32768 : x.v[i] > 32767 ? 32767 : x.v[i]);
  }
}
__attribute__((noinline)) inline void store_i8(int8_t* p, I32x16 x) {
  for (int i = 0; i < 16; ++i) {
    p[i] = static_cast<int8_t>(x.v[i] < -128 ? -128 : x.v[i] > 127 ? 127 : x.v[i]);
  }
}
// 64 integers from 0 to 254 as dot_counts takes them: less kCountsMiddle.
__attribute__((noinline)) inline void store_counts(uint8_t* p, const I32x16 (&x)[4]) {
  for (int i = 0; i < 64; ++i) {
    const int32_t y = x[i / 16].v[i % 16];
    p[i] = static_cast<uint8_t>(y < 0 ? 0 : y > 255 ? 255 : y);
  }
}

inline U8x64 load_bytes(const uint8_t* p) {
  return {read<Bytes>(p)};
}
// Bits [From, From + N) of each byte, moved to [To, To + N).
template <int From, int N, int To>
inline U8x64 bits_of(U8x64 bytes) {
  return {(bytes.v >> From & static_cast<uint8_t>((1 << N) - 1)) << To};
}
// x with these bits where it has zeros.
template <int From, int N, int To>
inline U8x64 or_bits_of(U8x64 x, U8x64 bytes) {
  return {x.v | bits_of<From, N, To>(bytes).v};
}
// Not inlined, here and below: compilers would take minutes for the many kernels.
__attribute__((noinline)) inline void replace_by_table(const uint8_t* table, uint8_t* bytes) {
  for (int i = 0; i < 64; ++i) bytes[i] = table[bytes[i]];
}
// Of 16 bytes those that the indices, below 16, name.
inline U8x64 look_up(const uint8_t* table, U8x64 indices) {
  uint8_t bytes[64];
  __builtin_memcpy(bytes, &indices.v, sizeof bytes);
  replace_by_table(table, bytes);
  return {read<Bytes>(bytes)};
}
// Signed bytes in the form that dot_signed takes: as they are.
inline U8x64 prepare_signed(U8x64 x) {
  return x;
}

// The four bytes of a, of type Byte, as shorts, repeated.
template <class Byte>
inline Shorts repeat_shorts(int32_t a) {
  uint64_t four = 0;
  for (int i = 0; i < 4; ++i) {
    const auto byte = static_cast<Byte>(static_cast<uint32_t>(a) >> (8 * i));
    four |= static_cast<uint64_t>(static_cast<uint16_t>(int16_t{byte})) << (16 * i);
  }
  return (Shorts)(four + Longs{});
}
// Sums of neighbours.
inline Ints add_pairs(Shorts products) {
  const Ints pairs = (Ints)products;
  return ((Ints)((Words)pairs << 16) >> 16) + (pairs >> 16);
}
// A product is at most 128 * 255.
inline I32x16 dot_shorts(I32x16 sum, Shorts low, Shorts high, Shorts factors) {
  const Ints x = add_pairs(low * factors);
  const Ints y = add_pairs(high * factors);
  return {sum.v +
          __builtin_shufflevector(x, y, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30) +
          __builtin_shufflevector(x, y, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31)};
}
template <class Half>
inline Shorts widen_half(const U8x64& w, int half) {
  return __builtin_convertvector(read<Half>(reinterpret_cast<const uint8_t*>(&w.v) + 32 * half),
                                 Shorts);
}
template <class Half, class Byte>
__attribute__((noinline)) inline void add_dot(I32x16& sum, const U8x64& w, int32_t a) {
  sum = dot_shorts(sum, widen_half<Half>(w, 0), widen_half<Half>(w, 1), repeat_shorts<Byte>(a));
}
// sum[i] += w[4i..4i+3] . the four signed bytes of a; w at most 127.
inline I32x16 dot(I32x16 sum, U8x64 w, int32_t a) {
  add_dot<HalfBytes, int8_t>(sum, w, a);
  return sum;
}
inline I32x16 dot_signed(I32x16 sum, U8x64 w, int32_t a) {
  add_dot<HalfSignedBytes, int8_t>(sum, w, a);
  return sum;
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
// sum[i] += the signed bytes w[4i..4i+3] . the four bytes of counts.
inline I32x16 dot_counts(I32x16 sum, U8x64 w, const int32_t* counts) {
  add_dot<HalfSignedBytes, uint8_t>(sum, w, *counts);
  return sum;
}

}  // namespace
}  // namespace bp::cpu::scalar
