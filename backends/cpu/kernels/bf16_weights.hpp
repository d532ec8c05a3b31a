#pragma once
// How weights of bf16 lie.
//
// Compiled with wide instructions enabled: see kernel_table.hpp.

#include <cstddef>
#include <cstdint>

#include "backends/cpu/kernels/weight_strips.hpp"

namespace bp::cpu {

// Products take so many columns at once.
inline constexpr uint32_t kBf16Columns = 32;

// How rows of bf16 weights lie: as a file has them, or in strips of kStripRows rows.
enum class Bf16Layout : uint8_t {
  kRows,
  kTiles,  // [columns / kBf16Columns][kStripRows][kBf16Columns], as tile registers take them
  kSplit,  // see Bf16Split
};

// A strip of bf16 in 12 bits a weight. Each row is multiplied by a power of two, so that its
// greatest weight has the exponent kMostExponent, and its products by `scale`, which undoes that.
// Of a weight the lower byte, the last bit of the exponent and the mantissa, stands as it is; the
// upper one, s0111kkk, is the nibble skkk. A strip where k = 0 is zero, s0000000, has 14 exponents,
// else 16. What it has not, mostly one weight in thousands, stands apart: zeros or the least two
// exponents, whichever are fewer, and all below. Where there is no room for them, k = 0 is zero and
// the least are 0.
//   f32 scale[kStripRows], u8 upper_byte[16] of nibbles, exceptions by ascending place, padding to
//   64 bytes, then for each kBf16Columns columns kGroups groups: of four pairs of columns the lower
//   bytes, u8[2][64], and the nibbles, u8[64], the lower ones those of the first 64.
// Lower and upper bytes of 64, interleaved in each 16, are two pairs of columns of kStripRows rows.
struct Bf16Split {
  struct Exception {
    uint32_t block;  // of kBf16Columns columns; kNoBlock after the last one
    uint16_t place;  // in the block's pairs [kBf16Columns / 2][kStripRows][2]
    uint16_t weight;
  };
  static constexpr uint32_t kNoBlock = UINT32_MAX;
  static constexpr int kMostExponent = 127, kLeastExponent = 112, kLeastBesideZero = 114;
  static constexpr uint32_t kGroupPairs = 4, kGroupBytes = 192, kNibblesAt = 128;
  static constexpr uint32_t kGroups = kBf16Columns / 2 / kGroupPairs;
  static constexpr uint32_t kBlockBytes = kGroups * kGroupBytes;
  static constexpr size_t kUpperBytesAt = kStripRows * sizeof(float);
  static constexpr size_t kExceptionsAt = kUpperBytesAt + 16;

  [[gnu::always_inline]] static constexpr uint8_t upper_byte(uint32_t nibble, bool has_zero) {
    const uint32_t exponent = nibble & 7;
    const uint32_t rest = has_zero && exponent == 0 ? 0 : 0x38 | exponent;
    return static_cast<uint8_t>((nibble & 8) << 4 | rest);
  }

  // As many as there is room for, one for 512 weights.
  [[gnu::always_inline]] static constexpr uint32_t n_exceptions(uint32_t n_columns) {
    return n_columns / 32;
  }
  [[gnu::always_inline]] static constexpr size_t blocks_at(uint32_t n_columns) {
    const size_t n_bytes = (n_exceptions(n_columns) + 1) * sizeof(Exception);
    return (kExceptionsAt + n_bytes + 63) / 64 * 64;
  }
  [[gnu::always_inline]] static constexpr size_t strip_bytes(uint32_t n_columns) {
    return blocks_at(n_columns) + size_t{n_columns / kBf16Columns} * kBlockBytes;
  }
  // Where the lower byte stands in its group.
  [[gnu::always_inline]] static constexpr uint32_t byte_of(uint32_t pair, uint32_t row,
                                                           uint32_t column) {
    return pair / 2 * 64 + row / 4 * 16 + pair % 2 * 8 + row % 4 * 2 + column;
  }
};

static constexpr size_t bf16_strip_bytes(Bf16Layout layout, uint32_t n_columns) {
  if (layout == Bf16Layout::kSplit) return Bf16Split::strip_bytes(n_columns);
  return size_t{n_columns} * kStripRows * sizeof(uint16_t);
}

struct Bf16Weights {
  const uint16_t* first;
  Bf16Layout layout;
  size_t row_stride;    // in elements; 0 in strips
  size_t strip_stride;  // from kStripRows rows to the next

  [[gnu::always_inline]] static Bf16Weights in_rows(const void* first, size_t row_stride_bytes) {
    const size_t stride = row_stride_bytes / sizeof(uint16_t);
    return {static_cast<const uint16_t*>(first), Bf16Layout::kRows, stride, stride * kStripRows};
  }
  [[gnu::always_inline]] static Bf16Weights in_strips(const void* first, Bf16Layout layout,
                                                      uint32_t n_columns) {
    return {static_cast<const uint16_t*>(first), layout, 0,
            bf16_strip_bytes(layout, n_columns) / sizeof(uint16_t)};
  }
  [[gnu::always_inline]] const uint16_t* strip(uint32_t i) const {
    return first + i * strip_stride;
  }
};

}  // namespace bp::cpu
