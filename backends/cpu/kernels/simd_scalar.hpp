#pragma once
// Sixteen lanes as arrays, for every processor, and the definition of what the other files do.
// Included by the kernels of this instruction set alone; everything has internal linkage.

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#define BP_CPU_ISA scalar

namespace bp::cpu::scalar {
namespace {

inline constexpr uint32_t kMaxPanel = 4;
inline constexpr uint32_t kFloatRows = 1;
inline constexpr uint32_t kFloatColumns = 1;
inline constexpr bool kSignedAsUnsigned = false;

struct F32x16 {
  float v[16];
};
struct I32x16 {
  int32_t v[16];
};
struct U8x64 {
  uint8_t v[64];
};

template <class Vector = F32x16, class F>
inline Vector lanes(F&& lane) {
  Vector y;
  for (int i = 0; i < static_cast<int>(sizeof y.v / sizeof y.v[0]); ++i) {
    y.v[i] = static_cast<decltype(+y.v[0])>(lane(i));
  }
  return y;
}

inline F32x16 broadcast(float x) {
  return lanes([&](int) { return x; });
}
inline F32x16 zero() {
  return broadcast(0);
}
inline F32x16 load(const float* p) {
  return lanes([&](int i) { return p[i]; });
}
inline void store(float* p, F32x16 x) {
  __builtin_memcpy(p, x.v, sizeof x.v);
}
// Lanes from n on are zero and their memory is not touched.
inline F32x16 load_first(const float* p, size_t n) {
  return lanes([&](int i) { return static_cast<size_t>(i) < n ? p[i] : 0.0f; });
}
inline void store_first(float* p, F32x16 x, size_t n) {
  __builtin_memcpy(p, x.v, n * sizeof(float));
}
inline F32x16 add(F32x16 a, F32x16 b) {
  return lanes([&](int i) { return a.v[i] + b.v[i]; });
}
inline F32x16 sub(F32x16 a, F32x16 b) {
  return lanes([&](int i) { return a.v[i] - b.v[i]; });
}
inline F32x16 mul(F32x16 a, F32x16 b) {
  return lanes([&](int i) { return a.v[i] * b.v[i]; });
}
inline F32x16 div(F32x16 a, F32x16 b) {
  return lanes([&](int i) { return a.v[i] / b.v[i]; });
}
// Rounds twice here.
inline F32x16 fma(F32x16 a, F32x16 b, F32x16 c) {
  return lanes([&](int i) { return a.v[i] * b.v[i] + c.v[i]; });
}
// The second operand where one of the two is NaN.
inline F32x16 max(F32x16 a, F32x16 b) {
  return lanes([&](int i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; });
}
inline F32x16 min(F32x16 a, F32x16 b) {
  return lanes([&](int i) { return a.v[i] < b.v[i] ? a.v[i] : b.v[i]; });
}
inline F32x16 round(F32x16 x) {
  return lanes([&](int i) { return rintf(x.v[i]); });
}
// y where x < limit, else z.
inline F32x16 where_less(F32x16 x, F32x16 limit, F32x16 y, F32x16 z) {
  return lanes([&](int i) { return x.v[i] < limit.v[i] ? y.v[i] : z.v[i]; });
}
// Lanes first <= i < end of x, others of y.
inline F32x16 where_between(int first, int end, F32x16 x, F32x16 y) {
  return lanes([&](int i) { return i >= first && i < end ? x.v[i] : y.v[i]; });
}
inline F32x16 abs(F32x16 x) {
  return lanes([&](int i) { return fabsf(x.v[i]); });
}
inline F32x16 copy_sign(F32x16 magnitude, F32x16 sign) {
  return lanes([&](int i) { return copysignf(magnitude.v[i], sign.v[i]); });
}
// x * 2^n for integral n in [-252, 252].
inline F32x16 scale_by_power_of_two(F32x16 x, F32x16 n) {
  return lanes([&](int i) { return n.v[i] != n.v[i] ? n.v[i] : ldexpf(x.v[i], (int)n.v[i]); });
}
inline float reduce_add(F32x16 x) {
  for (int half = 8; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) x.v[i] += x.v[i + half];
  }
  return x.v[0];
}
inline float reduce_max(F32x16 x) {
  for (int half = 8; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) x.v[i] = x.v[i] > x.v[i + half] ? x.v[i] : x.v[i + half];
  }
  return x.v[0];
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
inline float widen_f16(uint16_t h) {
  const uint32_t magnitude = h & 0x7fffu;
  const uint32_t sign = static_cast<uint32_t>(h & 0x8000u) << 16;
  if (magnitude >= 0x7c00u) return float_of(sign | 0x7f800000u | (magnitude << 13));
  // Exponents differ by 112; multiplying makes subnormals normal.
  const float x = float_of(magnitude << 13) * 0x1p112f;
  return float_of(sign | bits_of(x));
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
inline F32x16 load_f16(const uint16_t* p) {
  return lanes([&](int i) { return widen_f16(p[i]); });
}
inline F32x16 load_bf16(const uint16_t* p) {
  return lanes([&](int i) { return float_of(static_cast<uint32_t>(p[i]) << 16); });
}
inline void store_f16(uint16_t* p, F32x16 x) {
  for (int i = 0; i < 16; ++i) p[i] = narrow_f16(x.v[i]);
}
inline void store_bf16(uint16_t* p, F32x16 x) {
  for (int i = 0; i < 16; ++i) p[i] = narrow_bf16(x.v[i]);
}
inline F32x16 load_u8(const uint8_t* p) {
  return lanes([&](int i) { return p[i]; });
}
inline F32x16 load_i8(const uint8_t* p) {
  return lanes([&](int i) { return static_cast<int8_t>(p[i]); });
}

inline I32x16 broadcast_int(int32_t x) {
  return lanes<I32x16>([&](int) { return x; });
}
inline I32x16 sub(I32x16 a, I32x16 b) {
  return lanes<I32x16>([&](int i) { return a.v[i] - b.v[i]; });
}
template <int Bits>
inline I32x16 shift_left(I32x16 x) {
  return lanes<I32x16>([&](int i) { return x.v[i] * (1 << Bits); });
}
inline F32x16 to_float(I32x16 x) {
  return lanes([&](int i) { return static_cast<float>(x.v[i]); });
}
// The bits of |x|, which order like the values, NaN above all.
inline I32x16 magnitude_bits(F32x16 x) {
  return lanes<I32x16>([&](int i) { return static_cast<int32_t>(bits_of(x.v[i]) & 0x7fffffffu); });
}
inline I32x16 max(I32x16 a, I32x16 b) {
  return lanes<I32x16>([&](int i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; });
}
inline int32_t reduce_max(I32x16 x) {
  int32_t y = x.v[0];
  for (int32_t lane : x.v) y = lane > y ? lane : y;
  return y;
}
inline int32_t reduce_add(I32x16 x) {
  int32_t y = 0;
  for (int32_t lane : x.v) y += lane;
  return y;
}
// Nearest integers; what is no int32 becomes the smallest.
inline I32x16 to_int(F32x16 x) {
  return lanes<I32x16>([&](int i) {
    return x.v[i] >= -0x1p31f && x.v[i] < 0x1p31f ? static_cast<int32_t>(rintf(x.v[i])) : INT32_MIN;
  });
}
inline void store_i8(int8_t* p, I32x16 x) {
  for (int i = 0; i < 16; ++i) {
    p[i] = static_cast<int8_t>(x.v[i] < -128 ? -128 : x.v[i] > 127 ? 127 : x.v[i]);
  }
}

inline U8x64 load_bytes(const uint8_t* p) {
  U8x64 x;
  __builtin_memcpy(x.v, p, sizeof x.v);
  return x;
}
inline U8x64 low_nibbles(U8x64 x) {
  for (uint8_t& b : x.v) b &= 15;
  return x;
}
inline U8x64 high_nibbles(U8x64 x) {
  for (uint8_t& b : x.v) b = static_cast<uint8_t>(b >> 4);
  return x;
}
// Adds 16 to the bytes whose bit is set.
inline U8x64 add_16_where(U8x64 x, const uint8_t* bits) {
  for (int i = 0; i < 64; ++i) {
    x.v[i] = static_cast<uint8_t>(x.v[i] + ((bits[i / 8] >> (i % 8) & 1) << 4));
  }
  return x;
}
// x | bits [2*I, 2*I + 2) of each byte of pairs, shifted to weigh 16.
template <int I>
inline U8x64 or_pair(U8x64 x, U8x64 pairs) {
  for (int i = 0; i < 64; ++i) {
    x.v[i] = static_cast<uint8_t>(x.v[i] | ((pairs.v[i] >> (2 * I) & 3) << 4));
  }
  return x;
}
// Signed bytes in the form that dot_signed takes: as they are.
inline U8x64 prepare_signed(U8x64 x) {
  return x;
}
inline int32_t signed_byte(int32_t a, int i) {
  return static_cast<int8_t>(static_cast<uint32_t>(a) >> (8 * i));
}
template <class Byte>
inline I32x16 dot_bytes(I32x16 sum, U8x64 w, int32_t a) {
  const int32_t f0 = signed_byte(a, 0), f1 = signed_byte(a, 1);
  const int32_t f2 = signed_byte(a, 2), f3 = signed_byte(a, 3);
  for (int r = 0; r < 16; ++r) {
    const auto at = [&](int i) { return int32_t{static_cast<Byte>(w.v[4 * r + i])}; };
    sum.v[r] += at(0) * f0 + at(1) * f1 + at(2) * f2 + at(3) * f3;
  }
  return sum;
}
// sum[i] += w[4i..4i+3] . the four signed bytes of a; w at most 63.
inline I32x16 dot(I32x16 sum, U8x64 w, int32_t a) {
  return dot_bytes<uint8_t>(sum, w, a);
}
inline I32x16 dot_signed(I32x16 sum, U8x64 w, int32_t a) {
  return dot_bytes<int8_t>(sum, w, a);
}

}  // namespace
}  // namespace bp::cpu::scalar
