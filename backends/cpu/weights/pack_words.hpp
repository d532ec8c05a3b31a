#pragma once
// What the packers are made of: a row's share of a record, written by words of four columns. All
// arithmetic is on several columns at once, since packing bounds how soon a model starts.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "backends/cpu/weights/strip_layout.hpp"
#include "backplane/dtype.hpp"

namespace bp::cpu {

// Packs n_rows <= kStripRows rows of n_columns, a whole number of blocks, into a strip. What no
// column or row fills is zeros before.
using PackRows = void (*)(const uint8_t* rows, size_t row_stride_bytes, uint32_t n_rows,
                          uint32_t n_columns, uint8_t* strip);
struct PackSource {
  bp_dtype dtype;
  StripLayout layout;
  PackRows pack;
};
[[nodiscard]] std::span<const PackSource> simple_pack_sources();
[[nodiscard]] std::span<const PackSource> super_block_pack_sources();
[[nodiscard]] std::span<const PackSource> code_book_pack_sources();

inline constexpr uint32_t kWordNibbles = 0x0f0f0f0fu;
inline constexpr uint32_t kWordPairs = 0x03030303u;

template <class T>
[[nodiscard]] inline T load_as(const uint8_t* p) {
  T value;
  std::memcpy(&value, p, sizeof value);
  return value;
}
[[nodiscard]] inline uint32_t word_at(const uint8_t* bytes, uint32_t i) {
  return load_as<uint32_t>(bytes + 4 * i);
}

// words[a] has two bits of column 4a+i, and of those 32, 64 and 96 columns on, in byte i; after it
// words[c] has bits of column 32c+4a+i in byte i, from bit 2a on.
inline void transpose_pairs(uint32_t words[4]) {
  constexpr uint32_t n = kWordNibbles;
  const uint32_t a0 = (words[0] & n) | (words[2] & n) << 4;
  const uint32_t a1 = (words[1] & n) | (words[3] & n) << 4;
  const uint32_t a2 = (words[0] >> 4 & n) | (words[2] & ~n);
  const uint32_t a3 = (words[1] >> 4 & n) | (words[3] & ~n);
  constexpr uint32_t p = 0x33333333u;
  words[0] = (a0 & p) | (a1 & p) << 2;
  words[1] = (a0 >> 2 & p) | (a1 & ~p);
  words[2] = (a2 & p) | (a3 & p) << 2;
  words[3] = (a2 >> 2 & p) | (a3 & ~p);
}

// Bit b of byte i of 8 becomes bit i of byte b.
[[nodiscard]] inline uint64_t transpose_bits(uint64_t x) {
  uint64_t t = (x ^ (x >> 7)) & 0x00aa00aa00aa00aaull;
  x ^= t ^ (t << 7);
  t = (x ^ (x >> 14)) & 0x0000cccc0000ccccull;
  x ^= t ^ (t << 14);
  t = (x ^ (x >> 28)) & 0x00000000f0f0f0f0ull;
  return x ^ t ^ (t << 28);
}

// Bit 4k+i becomes bit 8i+k: four exchanges of two of the five bits of a position.
[[nodiscard]] inline uint32_t gather_quarters(uint32_t x) {
  const auto exchange = [&x](uint32_t distance, uint32_t mask) {
    const uint32_t t = (x ^ (x >> distance)) & mask;
    x ^= t ^ (t << distance);
  };
  exchange(3, 0x0a0a0a0au);
  exchange(6, 0x00cc00ccu);
  exchange(12, 0x0000f0f0u);
  exchange(8, 0x0000ff00u);
  return x;
}

// The bits part of a body from a word for each row, bit i being column i's.
// Sixteen words turn together, in vectors: row by row packing takes a quarter longer.
inline void write_bits(const uint32_t planes[kStripRows], uint8_t* bits) {
  uint32_t words[kStripRows];
  for (uint32_t r = 0; r < kStripRows; ++r) words[r] = gather_quarters(planes[r]);
  std::memcpy(bits, words, sizeof words);
}

// One row's share of a record.
template <StripLayout kLayout>
class RowWriter {
 public:
  static constexpr StripShape kShape = kStripShapes[static_cast<int>(kLayout)];
  static constexpr uint32_t kBlocks = kShape.record_columns / kPanelColumns;

  RowWriter(uint8_t* record, uint32_t row, uint32_t (*planes)[kStripRows])
      : record_(record), row_(row), planes_(planes) {}

  // Header value i of the array of numbers at offset.
  template <class T>
  void header(uint32_t offset, uint32_t i, T value) const {
    std::memcpy(record_ + offset + (i * kStripRows + row_) * sizeof value, &value, sizeof value);
  }
  // The f32 d in front of i8 scales, and such a scale.
  void scale_unit(float d) const { header(0, 0, d); }
  void scale(uint32_t i, int value) const { header(64, i, static_cast<int8_t>(value)); }

  // Word j of 4 of block b's nibbles, or h of 2 of its pairs, or k of 8 of its bytes.
  void nibbles(uint32_t b, uint32_t j, uint32_t word) const { set(b, 0, j, word); }
  void pairs(uint32_t b, uint32_t h, uint32_t word) const { set(b, 0, h, word); }
  void pairs_above_nibbles(uint32_t b, uint32_t h, uint32_t word) const { set(b, 256, h, word); }
  void bytes(uint32_t b, uint32_t k, uint32_t word) const { set(b, 0, k, word); }
  // Bit i: column i of block b.
  void bits(uint32_t b, uint32_t word) const { planes_[b][row_] = word; }

 private:
  void set(uint32_t b, uint32_t offset, uint32_t i, uint32_t word) const {
    std::memcpy(record_ + kShape.header_bytes + b * kShape.body_bytes + offset + 64 * i + 4 * row_,
                &word, sizeof word);
  }

  uint8_t* record_;
  uint32_t row_;
  uint32_t (*planes_)[kStripRows];
};

// Where a body's bits begin, if it has any.
[[nodiscard]] constexpr uint32_t bits_offset(uint32_t body_bytes) {
  return body_bytes % 128 == 64 ? body_bytes - 64 : 0;
}

// Source: kDtype, kLayout and pack(block, b, RowWriter), which writes a block of the file from
// block b of a record on. A record is a whole number of them.
template <class Source>
void pack_rows(const uint8_t* rows, size_t row_stride_bytes, uint32_t n_rows, uint32_t n_columns,
               uint8_t* strip) {
  using Writer = RowWriter<Source::kLayout>;
  constexpr StripShape shape = Writer::kShape;
  constexpr uint32_t block_bytes = kDtypes[Source::kDtype].block_bytes;
  constexpr uint32_t blocks = kDtypes[Source::kDtype].block_elements / kPanelColumns;
  constexpr uint32_t bits = bits_offset(shape.body_bytes);
  static_assert(Writer::kBlocks % blocks == 0);
  const uint32_t n_blocks = n_columns / kPanelColumns;
  uint32_t planes[Writer::kBlocks][kStripRows] = {};
  for (uint32_t first = 0; first < n_blocks; first += Writer::kBlocks) {
    const uint32_t n = n_blocks - first < Writer::kBlocks ? n_blocks - first : Writer::kBlocks;
    for (uint32_t row = 0; row < n_rows; ++row) {
      const uint8_t* block = rows + row * row_stride_bytes + first / blocks * block_bytes;
      for (uint32_t b = 0; b < n; b += blocks, block += block_bytes) {
        Source::pack(block, b, Writer(strip, row, planes));
      }
    }
    for (uint32_t b = 0; bits != 0 && b < n; ++b) {
      write_bits(planes[b], strip + shape.header_bytes + b * shape.body_bytes + bits);
    }
    strip += shape.header_bytes + Writer::kBlocks * shape.body_bytes;
  }
}

template <class Source>
inline constexpr PackSource kPackSource = {Source::kDtype, Source::kLayout, pack_rows<Source>};

}  // namespace bp::cpu
