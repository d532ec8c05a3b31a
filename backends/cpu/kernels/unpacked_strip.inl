// Strips whose quants are unpacked once for many panels; see UnpackStrip.

#pragma once

#include "backends/cpu/kernels/kernel_table.hpp"
#include "backends/cpu/kernels/strip_formats.inl"

namespace bp::cpu::BP_CPU_ISA {
namespace {

// Measured. Of those with factors of halves q3_K gained nothing, and q2_K's tables of multiples
// take quants as they lie. Few steps are worth it where they take the products' place in two pipes.
template <class W, Tuning T>
constexpr bool kGainsUnpacked =
    !W::kHalfFactors &&
    (W::kSteps == Steps::kMany || (W::kSteps == Steps::kFew && T == Tuning::kIntel));
template <class W>
constexpr uint32_t kUnpackedFrom = W::kSteps == Steps::kMany ? 32 : 128;

template <class W>
struct Unpacked : W {
  static constexpr uint32_t body_at(uint32_t b) {
    return W::kShape.header_bytes + b * kUnpackedBytes;
  }
  static constexpr uint32_t kRecordBytes = W::kShape.header_bytes + W::kBlocks * kUnpackedBytes;
  static const uint8_t* body(const uint8_t* record, uint32_t b) { return record + body_at(b); }
  template <int K>
  static U8x64 quants(const uint8_t* body) {
    return load_bytes(body + 64 * K);
  }
};

template <class W, int K = 0>
__attribute__((always_inline)) inline void unpack_block(const uint8_t* body, uint8_t* unpacked) {
  if constexpr (K < 8) {
    store_bytes(unpacked + 64 * K, W::template quants<K>(body));
    unpack_block<W, K + 1>(body, unpacked);
  }
}

template <class W>
void unpack_strip(const uint8_t* strip, uint32_t n_columns, uint8_t* unpacked) {
  const uint32_t n_blocks = n_columns / kPanelColumns;
  for (uint32_t block = 0; block < n_blocks; block += W::kBlocks) {
    __builtin_memcpy(unpacked, strip, W::kShape.header_bytes);
    for (uint32_t b = 0; b < W::kBlocks; ++b) {
      unpack_block<W>(W::body(strip, b), unpacked + Unpacked<W>::body_at(b));
    }
    strip += W::kRecordBytes;
    unpacked += Unpacked<W>::kRecordBytes;
  }
}

}  // namespace
}  // namespace bp::cpu::BP_CPU_ISA
