// How kernels see the strips of each layout.

#pragma once

#include "backends/cpu/kernels/weight_strips.hpp"
#include "backends/cpu/kernels/prefetch.hpp"
#include "backends/cpu/kernels/unroll.hpp"
#include "backends/cpu/weights/strip_layout.hpp"

namespace bp::cpu::BP_CPU_ISA {
namespace {

// A format is a form of scales and a form of quants. For block b of a record they give
//   scale(record, b, half): of 32 columns, or with kHalves of 16, a product of two numbers with
//     kMultipliesScales; kSubtractsStart: see SumScale
//   factors(record, b, half) where kHalfFactors: integers that each 16 columns have on top of it,
//     small enough for quants times factors to be bytes
//   minimum(record, b) where kHasMinimum: of 32 columns; with kHalfFactors of all the record's,
//     times minimum_factors(record, b): pairs of integers below 16, of its first 16 and its others
//   quants<k>(body): columns 4k..4k+3 of 16 rows, kUnit times what is multiplied by scales,
//   unsigned and kOffset above their values; with kSigned in the form that dot_signed takes, and
//   signed_quants as they are; kSteps says how many they take

template <StripLayout Layout>
struct Shape {
  static constexpr StripShape kShape = kStripShapes[static_cast<int>(Layout)];
  static constexpr uint32_t kBlocks = kShape.record_columns / kPanelColumns;
  static constexpr uint32_t kRecordBytes = kShape.header_bytes + kBlocks * kShape.body_bytes;
  static constexpr bool kHasMinimum = false;
  static constexpr bool kHalves = false;
  static constexpr bool kHalfFactors = false;
  static constexpr bool kMultipliesScales = false;
  static constexpr bool kSubtractsStart = false;
  static const uint8_t* body(const uint8_t* record, uint32_t b) {
    return record + kShape.header_bytes + b * kShape.body_bytes;
  }
};

// Scale, and minimum where there is one, are the record's, and fold once for all its blocks.
template <class W>
constexpr bool kFoldsRecords = W::kHalfFactors;

// The scale of sums of products with quants as they are.
template <class W>
__attribute__((always_inline)) inline F32x16 unit_scale(const uint8_t* record, uint32_t b,
                                                        int half) {
  const F32x16 scale = W::scale(record, b, half);
  if constexpr (W::kUnit == 1) return scale;
  return mul(scale, broadcast(1.0f / W::kUnit));
}

template <class W>
constexpr uint32_t block_lines = (W::kRecordBytes / W::kBlocks + 63) / 64;

// Asks for lines [Begin, End) from `from` on, into the cache of a level. Not inlined, it would do
// nothing that gcc can see, and go.
template <int Level, uint32_t Begin, uint32_t End>
__attribute__((always_inline)) inline void prefetch_lines(const uint8_t* from, size_t offset) {
  BP_UNROLL for (uint32_t line = Begin; line < End; ++line) {
    prefetch<Level>(from, offset + 64 * line);
  }
}
// The hardware's own prefetch stops at each page, and products leave it little time: the second
// level is asked for what is far ahead, since it waits for more lines at once, the first for what
// is near.
template <class W, size_t FarBytes = 4096, size_t NearBytes = 1024, uint32_t Begin = 0,
          uint32_t End = block_lines<W>>
__attribute__((always_inline)) inline void prefetch_far_and_near(const uint8_t* body) {
  prefetch_lines<2, Begin, End>(body, FarBytes);
  prefetch_lines<1, Begin, End>(body, NearBytes);
}

inline F32x16 f16_at(const uint8_t* p) {
  return load_f16(reinterpret_cast<const uint16_t*>(p));
}
inline F32x16 bf16_at(const uint8_t* p) {
  return load_bf16(reinterpret_cast<const uint16_t*>(p));
}
inline F32x16 f32_at(const uint8_t* p) {
  return load(reinterpret_cast<const float*>(p));
}

template <StripLayout Layout>
struct F16Scales : Shape<Layout> {
  static F32x16 scale(const uint8_t* record, uint32_t b, int) { return f16_at(record + 32 * b); }
};
template <StripLayout Layout>
struct Bf16Scales : Shape<Layout> {
  static F32x16 scale(const uint8_t* record, uint32_t b, int) { return bf16_at(record + 32 * b); }
};
template <StripLayout Layout>
struct F16HalfScales : Shape<Layout> {
  static constexpr bool kHalves = true;
  static F32x16 scale(const uint8_t* record, uint32_t b, int half) {
    return f16_at(record + 32 * (2 * b + static_cast<uint32_t>(half)));
  }
};
// One of 64 columns each.
template <StripLayout Layout>
struct F16WideScales : Shape<Layout> {
  static F32x16 scale(const uint8_t* record, uint32_t b, int) {
    return f16_at(record + 32 * (b / 2));
  }
};
template <StripLayout Layout>
struct F32Scale : Shape<Layout> {
  static constexpr bool kSubtractsStart = true;
  static F32x16 scale(const uint8_t* record, uint32_t, int) { return f32_at(record); }
};
template <StripLayout Layout>
struct F16ScaleAndMinimum : Shape<Layout> {
  static constexpr bool kHasMinimum = true;
  static F32x16 scale(const uint8_t* record, uint32_t, int) { return f16_at(record); }
  static F32x16 minimum(const uint8_t* record, uint32_t) { return f16_at(record + 32); }
};
template <StripLayout Layout>
struct I8Scales : Shape<Layout> {
  static constexpr bool kMultipliesScales = true;
  static F32x16 scale(const uint8_t* record, uint32_t b, int) {
    return mul(f32_at(record), load_i8(record + 64 + 16 * b));
  }
};
template <StripLayout Layout>
struct I8HalfScales : Shape<Layout> {
  static constexpr bool kHalves = true;
  static constexpr bool kMultipliesScales = true;
  static F32x16 scale(const uint8_t* record, uint32_t b, int half) {
    return mul(f32_at(record), load_i8(record + 64 + 16 * (2 * b + static_cast<uint32_t>(half))));
  }
};
template <StripLayout Layout>
struct U8ScalesAndMinimums : Shape<Layout> {
  static constexpr bool kHasMinimum = true;
  static constexpr bool kMultipliesScales = true;
  static F32x16 scale(const uint8_t* record, uint32_t b, int) {
    return mul(f16_at(record), load_u8(record + 64 + 16 * b));
  }
  static F32x16 minimum(const uint8_t* record, uint32_t b) {
    return mul(f16_at(record + 32), load_u8(record + 192 + 16 * b));
  }
};
template <StripLayout Layout>
struct I8HalfFactors : Shape<Layout> {
  static constexpr bool kHalfFactors = true;
  static F32x16 scale(const uint8_t* record, uint32_t, int) { return f32_at(record); }
  static Factors factors(const uint8_t* record, uint32_t b, int half) {
    return load_i8_factors(record + 64 + 16 * (2 * b + static_cast<uint32_t>(half)));
  }
};
template <StripLayout Layout>
struct U4HalfFactorsAndMinimums : Shape<Layout> {
  static constexpr bool kHasMinimum = true;
  static constexpr bool kHalfFactors = true;
  static F32x16 scale(const uint8_t* record, uint32_t, int) { return f16_at(record); }
  static const uint8_t* both(const uint8_t* record, uint32_t b, int half) {
    return record + 64 + 16 * (2 * b + static_cast<uint32_t>(half));
  }
  static Factors factors(const uint8_t* record, uint32_t b, int half) {
    return load_low_nibble_factors(both(record, b, half));
  }
  static F32x16 minimum(const uint8_t* record, uint32_t) { return f16_at(record + 32); }
  static FactorPairs minimum_factors(const uint8_t* record, uint32_t b) {
    return load_high_nibble_pairs(both(record, b, 0), both(record, b, 1));
  }
};

// That make a record's bytes quants: few are a shift and a mask.
enum class Steps { kNone, kFew, kMany };

// Bits: of a quant.
template <int Offset, int Bits, int Unit = 1>
struct Unsigned {
  static_assert(Bits <= 7, "pairs of products with signed bytes are summed in 16 bits");
  static constexpr int kUnit = Unit;
  static constexpr int kUp = __builtin_ctz(Unit);
  static constexpr int kOffset = Unit * Offset;
  static constexpr int kLargest = Unit * ((1 << Bits) - 1);
  static_assert(kLargest < 256);
  static constexpr bool kSigned = false;
  static constexpr Steps kSteps = Steps::kMany;
};
// Where sums begin at kSumStart, quants 128 above their values need nothing to start them.
constexpr int unit_of(int offset) {
  return kSumStart == 0 || offset == 0 ? 1 : 128 / offset;
}
template <int Offset, int Bits>
using InUnits = Unsigned<Offset, Bits, unit_of(Offset)>;
struct Signed {
  static constexpr int kUnit = 1;
  static constexpr int kOffset = kSignedAsUnsigned ? 128 : 0;
  static constexpr int kLargest = 128;
  static constexpr bool kSigned = true;
  static constexpr Steps kSteps = Steps::kMany;
};

// Times 2^Up.
template <int K, int Up = 0>
inline U8x64 nibbles_of(const uint8_t* body) {
  return bits_of<K / 4 * 4, 4, Up>(load_bytes(body + 64 * (K % 4)));
}
template <int K>
inline U8x64 pairs_of(const uint8_t* body) {
  return bits_of<K % 4 * 2, 2, 0>(load_bytes(body + 64 * (K / 4)));
}
template <int K>
inline U8x64 pairs_and_bits_of(const uint8_t* body) {
  return or_bits_of<K, 1, 2>(pairs_of<K>(body), load_bytes(body + 128));
}

template <int Offset>
struct Nibbles : InUnits<Offset, 4> {
  static constexpr Steps kSteps = Steps::kFew;
  template <int K>
  static U8x64 quants(const uint8_t* body) {
    return nibbles_of<K, Nibbles::kUp>(body);
  }
};
template <int Offset>
struct NibblesBits : Unsigned<Offset, 5> {  // no faster in other units
  template <int K>
  static U8x64 quants(const uint8_t* body) {
    return or_bits_of<K, 1, 4>(nibbles_of<K>(body), load_bytes(body + 256));
  }
};
template <int Offset>
struct NibblesPairs : InUnits<Offset, 6> {
  template <int K>
  static U8x64 quants(const uint8_t* body) {
    constexpr int kUp = NibblesPairs::kUp;
    const U8x64 pairs = load_bytes(body + 256 + 64 * (K / 4));
    return or_bits_of<K % 4 * 2, 2, 4 + kUp>(nibbles_of<K, kUp>(body), pairs);
  }
};
template <int Offset>
struct Pairs : Unsigned<Offset, 2> {
  static constexpr Steps kSteps = Steps::kFew;
  template <int K>
  static U8x64 quants(const uint8_t* body) {
    return pairs_of<K>(body);
  }
};
template <int Offset>
struct PairsBits : Unsigned<Offset, 3> {
  template <int K>
  static U8x64 quants(const uint8_t* body) {
    return pairs_and_bits_of<K>(body);
  }
};
struct WholeBytes : Signed {
  static constexpr Steps kSteps = Steps::kNone;
  template <int K>
  static U8x64 quants(const uint8_t* body) {
    return prepare_signed(signed_quants<K>(body));
  }
  template <int K>
  static U8x64 signed_quants(const uint8_t* body) {
    return load_bytes(body + 64 * K);
  }
};

struct Table {
  alignas(16) uint8_t of[16];
};
constexpr Table moved_up(const StripValues& values, int offset, int unit = 1) {
  Table table{};
  for (int i = 0; i < 16; ++i) table.of[i] = static_cast<uint8_t>(unit * values.of[i] + offset);
  return table;
}
// Bits of what is looked up, moved up by half of what they have room for.
constexpr int code_bits(const StripValues& values) {
  int bits = 4;
  for (const int8_t value : values.of) {
    while (value < -(1 << (bits - 1)) || value >= 1 << (bits - 1)) ++bits;
  }
  return bits;
}
template <const StripValues& Values>
using Codes = InUnits<1 << (code_bits(Values) - 1), code_bits(Values)>;

template <const StripValues& Values>
struct NibbleCodes : Codes<Values> {
  static constexpr Table kTable = moved_up(Values, Codes<Values>::kOffset, Codes<Values>::kUnit);
  template <int K>
  static U8x64 quants(const uint8_t* body) {
    return look_up(kTable.of, nibbles_of<K>(body));
  }
};
template <const StripValues& Values>
struct PairsBitsCodes : Codes<Values> {
  static constexpr Table kTable = moved_up(Values, Codes<Values>::kOffset, Codes<Values>::kUnit);
  template <int K>
  static U8x64 quants(const uint8_t* body) {
    return look_up(kTable.of, pairs_and_bits_of<K>(body));
  }
};
template <const StripValues& Values>
struct SignedNibbleCodes : Signed {
  static constexpr Table kTable = moved_up(Values, kOffset);
  static constexpr Table kSignedTable = moved_up(Values, 0);
  template <int K>
  static U8x64 quants(const uint8_t* body) {
    return look_up(kTable.of, nibbles_of<K>(body));
  }
  template <int K>
  static U8x64 signed_quants(const uint8_t* body) {
    return look_up(kSignedTable.of, nibbles_of<K>(body));
  }
};

struct Q4_0 : F16Scales<StripLayout::kQ4_0>, Nibbles<8> {};
struct Q4_1 : F16ScaleAndMinimum<StripLayout::kQ4_1>, Nibbles<0> {};
struct Q5_0 : F16Scales<StripLayout::kQ5_0>, NibblesBits<16> {};
struct Q5_1 : F16ScaleAndMinimum<StripLayout::kQ5_1>, NibblesBits<0> {};
struct Q8_0 : F16Scales<StripLayout::kQ8_0>, WholeBytes {};
struct Q2_K : U4HalfFactorsAndMinimums<StripLayout::kQ2_K>, Pairs<0> {};
struct Q3_K : I8HalfFactors<StripLayout::kQ3_K>, PairsBits<4> {};
struct Q4_K : U8ScalesAndMinimums<StripLayout::kQ4_K>, Nibbles<0> {};
struct Q5_K : U8ScalesAndMinimums<StripLayout::kQ5_K>, NibblesBits<0> {};
struct Q6_K : I8HalfScales<StripLayout::kQ6_K>, NibblesPairs<32> {};
struct Q8_K : F32Scale<StripLayout::kQ8_K>, WholeBytes {};
struct Iq4Nl : F16Scales<StripLayout::kIq4Nl>, SignedNibbleCodes<kIq4StripValues> {};
struct Iq4Xs : I8Scales<StripLayout::kIq4Xs>, SignedNibbleCodes<kIq4StripValues> {};
struct Iq3Xxs : I8Scales<StripLayout::kIq3Xxs>, NibbleCodes<kIq3XxsStripValues> {};
struct Iq3S : I8Scales<StripLayout::kIq3S>, NibbleCodes<kIq3SStripValues> {};
struct Iq2Xxs : I8Scales<StripLayout::kIq2Xxs>, PairsBitsCodes<kIq2StripValues> {};
struct Iq2S : I8HalfScales<StripLayout::kIq2S>, PairsBitsCodes<kIq2StripValues> {};
struct Iq1S : I8Scales<StripLayout::kIq1S>, PairsBitsCodes<kIq1StripValues> {};
struct Iq1M : I8HalfScales<StripLayout::kIq1M>, PairsBitsCodes<kIq1StripValues> {};
struct Mxfp4 : Bf16Scales<StripLayout::kMxfp4>, NibbleCodes<kFp4StripValues> {};
struct Nvfp4 : F16HalfScales<StripLayout::kNvfp4>, NibbleCodes<kFp4StripValues> {};
struct Q2_0 : F16WideScales<StripLayout::kQ2_0>, Pairs<1> {};

// f(format, layout) for each of them.
template <class F>
inline void for_each_format(F&& f) {
  f(Q4_0{}, StripLayout::kQ4_0);
  f(Q4_1{}, StripLayout::kQ4_1);
  f(Q5_0{}, StripLayout::kQ5_0);
  f(Q5_1{}, StripLayout::kQ5_1);
  f(Q8_0{}, StripLayout::kQ8_0);
  f(Q2_K{}, StripLayout::kQ2_K);
  f(Q3_K{}, StripLayout::kQ3_K);
  f(Q4_K{}, StripLayout::kQ4_K);
  f(Q5_K{}, StripLayout::kQ5_K);
  f(Q6_K{}, StripLayout::kQ6_K);
  f(Q8_K{}, StripLayout::kQ8_K);
  f(Iq4Nl{}, StripLayout::kIq4Nl);
  f(Iq4Xs{}, StripLayout::kIq4Xs);
  f(Iq3Xxs{}, StripLayout::kIq3Xxs);
  f(Iq3S{}, StripLayout::kIq3S);
  f(Iq2Xxs{}, StripLayout::kIq2Xxs);
  f(Iq2S{}, StripLayout::kIq2S);
  f(Iq1S{}, StripLayout::kIq1S);
  f(Iq1M{}, StripLayout::kIq1M);
  f(Mxfp4{}, StripLayout::kMxfp4);
  f(Nvfp4{}, StripLayout::kNvfp4);
  f(Q2_0{}, StripLayout::kQ2_0);
}

}  // namespace
}  // namespace bp::cpu::BP_CPU_ISA
