#pragma once
// Reads strips of bf16 in 12 bits (Bf16Split).

#include <immintrin.h>

#include "backends/cpu/kernels/bf16_weights.hpp"
#include "backends/cpu/kernels/unroll.hpp"

namespace bp::cpu::avx512_bf16 {
namespace {

constexpr uint32_t kPairElements = 2 * kStripRows;
constexpr uint32_t kUnitPairs = kBf16Columns / 2;  // of a block
constexpr uint32_t kUnitElements = kUnitPairs * kPairElements;

// Makes pairs of a strip's blocks, one block after another.
class SplitStrip {
 public:
  SplitStrip() = default;  // none: nothing may be made of it
  SplitStrip(const uint16_t* strip, uint32_t n_columns)
      : exception_(reinterpret_cast<const Bf16Split::Exception*>(bytes_of(strip) +
                                                                 Bf16Split::kExceptionsAt)),
        end_(exception_ + Bf16Split::n_exceptions(n_columns)),
        block_(bytes_of(strip) + Bf16Split::blocks_at(n_columns)),
        upper_bytes_(_mm512_broadcast_i32x4(_mm_loadu_si128(
            reinterpret_cast<const __m128i*>(bytes_of(strip) + Bf16Split::kUpperBytesAt)))) {}

  [[nodiscard]] static __m512 scales(const uint16_t* strip) { return _mm512_loadu_ps(strip); }
  [[nodiscard]] static const uint16_t* block(const uint16_t* strip, uint32_t n_columns,
                                             uint32_t column) {
    const size_t n_bytes = size_t{column / kBf16Columns} * Bf16Split::kBlockBytes;
    return strip + (Bf16Split::blocks_at(n_columns) + n_bytes) / sizeof(uint16_t);
  }

  [[nodiscard]] const uint8_t* next_block() const { return block_; }
  [[nodiscard]] __m512i upper_bytes() const { return upper_bytes_; }
  struct TwoPairs {
    __m512i of[2];
  };
  // Two of a block's pairs, 0 <= i < kUnitPairs / 2, but for what stands apart. upper_bytes: the
  // strip's, four times over: six bits choose one, of which the upper two are another nibble's.
  __attribute__((always_inline)) static TwoPairs two_pairs(const uint8_t* block, uint32_t i,
                                                           __m512i upper_bytes) {
    const uint8_t* group = block + i / 2 * Bf16Split::kGroupBytes;
    const __m512i lower = _mm512_loadu_si512(group + i % 2 * 64);
    const __m512i both = _mm512_loadu_si512(group + Bf16Split::kNibblesAt);
    const __m512i nibbles = i % 2 == 0 ? both : _mm512_srli_epi16(both, 4);
    const __m512i upper = _mm512_permutexvar_epi8(nibbles, upper_bytes);
    return {{_mm512_unpacklo_epi8(lower, upper), _mm512_unpackhi_epi8(lower, upper)}};
  }
  // Into their place, in the form of the arithmetic A.
  template <class A>
  __attribute__((always_inline)) static void make(const uint8_t* block, uint32_t i,
                                                  __m512i upper_bytes, typename A::X* pairs) {
    const TwoPairs two = two_pairs(block, i, upper_bytes);
    pairs += 2 * i * kPairElements;
    A::store_pair(pairs, two.of[0]);
    A::store_pair(pairs + kPairElements, two.of[1]);
  }
  // Whether any of the next block's weights stands apart.
  [[nodiscard]] bool has_exceptions() const {
    return exception_->block == n_made_ && exception_ != end_;
  }
  // Pair i of the next block with what stands apart in it; pairs are completed in their order.
  __attribute__((always_inline)) __m512i complete(__m512i pair, uint32_t i) {
    while (has_exceptions() && exception_->place / kPairElements == i) {
      const __mmask32 at = 1u << exception_->place % kPairElements;
      pair = _mm512_mask_set1_epi16(pair, at, static_cast<short>(exception_->weight));
      ++exception_;
    }
    return pair;
  }
  // What no pair of the next block took, since a file may hold anything.
  void skip_exceptions() {
    while (has_exceptions()) ++exception_;
  }
  void skip_block() {
    ++n_made_;
    block_ += Bf16Split::kBlockBytes;
  }
  // Once all pairs of the next block are made: what stands apart. A file may hold anything.
  template <class A>
  __attribute__((always_inline)) void end_block(typename A::X* pairs) {
    while (__builtin_expect(has_exceptions(), 0)) {
      const uint32_t at = exception_->place % kUnitElements;
      A::store_weight(pairs + at / kPairElements * kPairElements, at % kPairElements,
                      exception_->weight);
      ++exception_;
    }
    skip_block();
  }
  template <class A>
  __attribute__((always_inline)) void make_block(typename A::X* pairs) {
    BP_UNROLL for (uint32_t i = 0; i < kUnitPairs / 2; ++i) make<A>(block_, i, upper_bytes_, pairs);
    end_block<A>(pairs);
  }

 private:
  static const uint8_t* bytes_of(const uint16_t* strip) {
    return reinterpret_cast<const uint8_t*>(strip);
  }

  const Bf16Split::Exception* exception_ = nullptr;
  const Bf16Split::Exception* end_ = nullptr;
  const uint8_t* block_ = nullptr;
  __m512i upper_bytes_ = _mm512_setzero_si512();
  uint32_t n_made_ = 0;  // blocks
};

}  // namespace
}  // namespace bp::cpu::avx512_bf16
