// How kernels see the strips of each layout.

#pragma once

#include "backends/cpu/kernels/kernel_table.hpp"
#include "backends/cpu/kernels/unroll.hpp"
#include "backends/cpu/weights/strip_layout.hpp"

namespace bp::cpu::BP_CPU_ISA {
namespace {

// Each format gives, for block b of a record: quants<k>, the unsigned quants of columns 4k..4k+3 of
// 16 rows; the scale of its first or second half; whether it has a minimum for each block;
// kOffset8, how many times 8 its quants lie above their values (as a shift), or kNoOffset.
constexpr int kNoOffset = -1;

inline F32x16 f16_at(const uint8_t* p) {
  return load_f16(reinterpret_cast<const uint16_t*>(p));
}

template <int K>
inline U8x64 nibbles(const uint8_t* body) {
  const U8x64 both = load_bytes(body + 64 * (K % 4));
  if constexpr (K < 4) {
    return low_nibbles(both);
  } else {
    return high_nibbles(both);
  }
}

template <StripLayout Layout>
struct Shape {
  static constexpr StripShape kShape = kStripShapes[static_cast<int>(Layout)];
  static constexpr uint32_t kBlocks = kShape.record_columns / kPanelColumns;
  static constexpr uint32_t kRecordBytes = kShape.header_bytes + kBlocks * kShape.body_bytes;
  static constexpr bool kHalves = false;
  static constexpr bool kSigned = false;
  static const uint8_t* body(const uint8_t* record, uint32_t b) {
    return record + kShape.header_bytes + b * kShape.body_bytes;
  }
};

struct Q4_0 : Shape<StripLayout::kQ4_0> {
  static constexpr int kOffset8 = 0;
  static constexpr bool kHasMinimum = false;
  template <int K>
  static U8x64 quants(const uint8_t* body) {
    return nibbles<K>(body);
  }
  static F32x16 scale(const uint8_t* record, uint32_t b, int) { return f16_at(record + 32 * b); }
};

struct Q5_0 : Shape<StripLayout::kQ5_0> {
  static constexpr int kOffset8 = 1;
  static constexpr bool kHasMinimum = false;
  template <int K>
  static U8x64 quants(const uint8_t* body) {
    return add_16_where(nibbles<K>(body), body + 256 + 8 * K);
  }
  static F32x16 scale(const uint8_t* record, uint32_t b, int) { return f16_at(record + 32 * b); }
};

struct Q8_0 : Shape<StripLayout::kQ8_0> {
  static constexpr int kOffset8 = kSignedAsUnsigned ? 4 : kNoOffset;
  static constexpr bool kHasMinimum = false;
  static constexpr bool kSigned = true;
  template <int K>
  static U8x64 quants(const uint8_t* body) {
    return prepare_signed(load_bytes(body + 64 * K));
  }
  static F32x16 scale(const uint8_t* record, uint32_t b, int) { return f16_at(record + 32 * b); }
};

template <StripLayout Layout>
struct ScaleAndMinimum : Shape<Layout> {
  static constexpr int kOffset8 = kNoOffset;
  static constexpr bool kHasMinimum = true;
  static F32x16 scale(const uint8_t* record, uint32_t, int) { return f16_at(record); }
  static F32x16 minimum(const uint8_t* record, uint32_t) { return f16_at(record + 32); }
};

struct Q4_1 : ScaleAndMinimum<StripLayout::kQ4_1> {
  template <int K>
  static U8x64 quants(const uint8_t* body) {
    return nibbles<K>(body);
  }
};

struct Q5_1 : ScaleAndMinimum<StripLayout::kQ5_1> {
  template <int K>
  static U8x64 quants(const uint8_t* body) {
    return add_16_where(nibbles<K>(body), body + 256 + 8 * K);
  }
};

template <StripLayout Layout>
struct SuperBlock : Shape<Layout> {
  static constexpr int kOffset8 = kNoOffset;
  static constexpr bool kHasMinimum = true;
  static F32x16 scale(const uint8_t* record, uint32_t b, int) {
    return mul(f16_at(record), load_u8(record + 64 + 16 * b));
  }
  static F32x16 minimum(const uint8_t* record, uint32_t b) {
    return mul(f16_at(record + 32), load_u8(record + 192 + 16 * b));
  }
};

struct Q4_K : SuperBlock<StripLayout::kQ4_K> {
  template <int K>
  static U8x64 quants(const uint8_t* body) {
    return nibbles<K>(body);
  }
};

struct Q5_K : SuperBlock<StripLayout::kQ5_K> {
  template <int K>
  static U8x64 quants(const uint8_t* body) {
    return add_16_where(nibbles<K>(body), body + 256 + 8 * K);
  }
};

struct Q6_K : Shape<StripLayout::kQ6_K> {
  static constexpr int kOffset8 = 2;
  static constexpr bool kHasMinimum = false;
  static constexpr bool kHalves = true;
  template <int K>
  static U8x64 quants(const uint8_t* body) {
    return or_pair<K % 4>(nibbles<K>(body), load_bytes(body + 256 + 64 * (K / 4)));
  }
  static F32x16 scale(const uint8_t* record, uint32_t b, int half) {
    return mul(f16_at(record), load_i8(record + 64 + 16 * (2 * b + static_cast<uint32_t>(half))));
  }
};

struct I8 : Shape<StripLayout::kI8> {
  static constexpr int kOffset8 = kSignedAsUnsigned ? 4 : kNoOffset;
  static constexpr bool kHasMinimum = false;
  static constexpr bool kHalves = true;
  static constexpr bool kSigned = true;
  template <int K>
  static U8x64 quants(const uint8_t* body) {
    return prepare_signed(load_bytes(body + 64 * K));
  }
  static F32x16 scale(const uint8_t* record, uint32_t, int half) {
    return load(reinterpret_cast<const float*>(record) + 16 * half);
  }
};

}  // namespace
}  // namespace bp::cpu::BP_CPU_ISA
