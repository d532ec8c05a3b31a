// Strips whose quants are unpacked once for many panels; see StripPart.

#pragma once

#include "backends/cpu/kernels/kernel_table.hpp"
#include "backends/cpu/kernels/strip_formats.inl"

namespace bp::cpu::BP_CPU_ISA {
namespace {

// Of those with factors of halves q3_K gained nothing, and q2_K's tables of multiples take quants
// as they lie.
template <class W>
constexpr bool kMayUnpack = !W::kHalfFactors && W::kSteps != Steps::kNone;

// That are multiplied together.
constexpr uint32_t kUnpackedStrips = kPairedPanel <= kMaxPanel ? 2 : 1;

// From so many rows on unpacking gains; measured. Few steps are worth it where they take the
// products' place in two pipes, on Zen 5 where scales take steps besides. Where strips are
// multiplied one by one each panel has steps of its own.
constexpr uint32_t kNeverUnpacked = UINT32_MAX;
template <class W>
constexpr uint32_t unpacked_from(Tuning tuning) {
  constexpr bool kTakesMany = W::kSteps == Steps::kMany;
  if constexpr (kUnpackedStrips == 1) return kTakesMany || W::kMultipliesScales ? 12 : 64;
  if (tuning == Tuning::kIntel) return kTakesMany ? 16 : 24;
  if (tuning == Tuning::kZen4) return kTakesMany ? 32 : kNeverUnpacked;
  return kTakesMany || W::kMultipliesScales || W::kUnit != 1 ? 64 : kNeverUnpacked;
}
constexpr uint32_t kUnpackedPanel = 4;  // narrower ones, the last of many, take strips as they are

// A record is of 32 columns: their scales and minimum as floats, then their quants, 128 above their
// values where they are above them at all and sums of pairs need no room.
template <class W>
struct Unpacked : W {
  static constexpr uint32_t kBlocks = 1;
  static constexpr Steps kSteps = Steps::kNone;
  static constexpr int kOffset = kSumsPairs || W::kOffset == 0 ? W::kOffset : 128;
  static constexpr int kUnit = 1;  // scales are those of units
  static constexpr uint32_t kMinimumAt = W::kHalves ? 128 : 64;
  static constexpr uint32_t kQuantsAt = kMinimumAt + (W::kHasMinimum ? 64 : 0);
  static constexpr uint32_t kRecordBytes = kQuantsAt + 8 * 64;
  static_assert(kRecordBytes <= kUnpackedBlockBytes);
  static F32x16 scale(const uint8_t* record, uint32_t, int half) {
    return f32_at(record + 64 * half);
  }
  static F32x16 minimum(const uint8_t* record, uint32_t) { return f32_at(record + kMinimumAt); }
  static const uint8_t* body(const uint8_t* record, uint32_t) { return record + kQuantsAt; }
  template <int K>
  static U8x64 quants(const uint8_t* body) {
    return load_bytes(body + 64 * K);
  }
};

template <class W, int K = 0>
__attribute__((always_inline)) inline void unpack_quants(const uint8_t* body, uint8_t* unpacked) {
  if constexpr (K < 8) {
    const U8x64 quants = W::template quants<K>(body);
    store_bytes(unpacked + 64 * K, sub_bytes(quants, W::kOffset - Unpacked<W>::kOffset));
    unpack_quants<W, K + 1>(body, unpacked);
  }
}

// Block b of a record of W.
template <class W>
__attribute__((always_inline)) inline void unpack_block(const uint8_t* record, uint32_t b,
                                                        uint8_t* unpacked) {
  const auto put = [&](uint32_t at, F32x16 x) {
    store(reinterpret_cast<float*>(unpacked + at), x);
  };
  put(0, unit_scale<W>(record, b, 0));
  if constexpr (W::kHalves) put(64, unit_scale<W>(record, b, 1));
  if constexpr (W::kHasMinimum) put(Unpacked<W>::kMinimumAt, W::minimum(record, b));
  unpack_quants<W>(W::body(record, b), unpacked + Unpacked<W>::kQuantsAt);
}

}  // namespace
}  // namespace bp::cpu::BP_CPU_ISA
