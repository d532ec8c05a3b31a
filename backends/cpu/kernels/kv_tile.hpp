#pragma once
// How keys and values lie that attention reads, tile by tile.
//
// Compiled with wide instructions enabled: see kernel_table.hpp.

#include <cstddef>
#include <cstdint>

namespace bp::cpu {

// Attention reads the cache in tiles of kTilePositions absolute positions, whatever the block size;
// a tile is kTileGroups groups of 16 positions, each within one block.
inline constexpr uint32_t kTilePositions = 64;
inline constexpr uint32_t kTileGroups = 4;

// Types of the cache. The first are the FloatTypes; q8_0 and q4_0 have one f16 scale per
// kKvScaleDims dimensions of a head, the last of them perhaps fewer.
enum class KvType : uint8_t { kF32, kF16, kBF16, kQ8_0, kQ4_0 };
inline constexpr uint32_t kKvTypes = 5;
inline constexpr uint32_t kKvScaleDims = 32;

// Keys and values of bf16 stand in pairs, so that one instruction multiplies two: keys of 16
// positions as [dims / 2][16][2], dims rounded up to kKeyPairDims with zeros; values of 32
// positions as [columns / 16][16][16][2], column blocks, pairs of positions, columns, positions of
// the pair. Both are what a tile register takes.
inline constexpr uint32_t kKeyPairDims = 32;
inline constexpr uint32_t kValuePairPositions = 32;

// Integers of a head stand in the order in which kernels read them. Keys of kKeyPositions
// positions: for each scale's dimensions the scales [kKeyPositions], then words of four bytes
// [words][kKeyPositions], so that one instruction serves 16 positions. A word is four dimensions of
// 8 bits or eight of 4 bits, the first four in the low halves of the bytes, each number plus 8.
// Values: for each scale's columns, all of a block's positions, four at a time: those of 16 columns
// [16][4], then of the next 16; of 4 bits one such [16][4] with the second 16 columns in the high
// halves.
inline constexpr uint32_t kKeyPositions = 32;
inline constexpr uint32_t kKeyWordBytes = kKeyPositions * 4;
inline constexpr uint32_t kKeyScaleBytes = kKeyPositions * 2;
[[nodiscard]] constexpr uint32_t key_words_of_scale(KvType type) {
  return type == KvType::kQ4_0 ? kKvScaleDims / 8 : kKvScaleDims / 4;
}
// Bytes from a scale's dimensions to the next scale's.
[[nodiscard]] constexpr uint32_t key_scale_step(KvType type) {
  return kKeyScaleBytes + key_words_of_scale(type) * kKeyWordBytes;
}
// Of a scale's columns, from four positions to the next four.
[[nodiscard]] constexpr uint32_t value_quad_bytes(KvType type) {
  return type == KvType::kQ4_0 ? 64 : 128;
}

// Whole scales' dimensions of 8-bit and 4-bit keys and their queries are Hadamard-transformed:
// trained models' keys stand out in few dimensions, at the cost of the others' bits. On SmolLM2 the
// error of the logits is a third.
//
// A query against such keys: for each kKvScaleDims dimensions a record of
//   int32 words[8]   four consecutive dimensions each, as int8
//   int32 offset     -128 * sum of the integers
//   float scale      x = scale * integer
// which takes less room than the dimensions as floats.
inline constexpr uint32_t kQueryWords = kKvScaleDims / 4;
inline constexpr uint32_t kQueryRecordWords = kQueryWords + 2;

// A whole tile of a head's keys and values of bf16 in 12 bits a number, without loss, where there
// are as many dimensions as columns, n_dims, a multiple of 32. Each has a base, the exponent 15
// below its greatest one or 0. Of a number less its base the lower byte, the last bit of the
// exponent and the mantissa, stands as it is; the upper one, s0000kkk, is the nibble skkk. What has
// an exponent below the base stands apart, and 0 in its place.
//   bases u8[2][n_dims], the ends u16[n_pieces] of each piece's part of what stands apart, that
//   itself, by its place, with room for one number in 256, padding to 64 bytes; then KvTile's
//   vectors of 32 numbers, two sides in turn: keys [2][n_dims / 2][2 groups], then values
//   [2][n_dims / 32][16][2 times 16 columns]: of each four the lower bytes u8[2][64], then the
//   nibbles u8[64], the lower ones those of the first 64. Lower and upper bytes of 64, interleaved
//   in each 16, are two vectors.
// Pieces: keys of two groups; values of half a tile, 32 columns.
struct PackedTile {
  struct Apart {
    uint16_t element;  // of the piece's sides, one after the other
    uint16_t number;
  };
  static constexpr uint32_t kMostDims = 256;
  static constexpr uint32_t kExponents = 16;
  static constexpr uint32_t kFourBytes = 192, kNibblesAt = 128;  // of four vectors
  static constexpr uint32_t kSides = 2;                          // whose products wait for nothing
  static constexpr uint32_t kValuePairs = kValuePairPositions / 2;  // vectors of a side of values
  static constexpr uint32_t kPieceColumns = kSides * 16;

  const uint8_t* first;  // null: none
  uint32_t n_dims;

  [[gnu::always_inline]] static constexpr bool takes(uint32_t k_dims, uint32_t v_dims) {
    return k_dims == v_dims && k_dims % 32 == 0 && k_dims <= kMostDims;
  }
  [[gnu::always_inline]] static constexpr size_t whole_bytes(uint32_t n_dims) {
    return size_t{2} * kTilePositions * n_dims * sizeof(uint16_t);
  }
  [[gnu::always_inline]] static constexpr size_t packed_bytes(uint32_t n_dims) {
    return numbers_at(n_dims) + whole_bytes(n_dims) / 4 * 3;
  }
  [[gnu::always_inline]] static constexpr uint32_t n_pieces(uint32_t n_dims) {
    return kTileGroups / kSides + 2 * n_dims / kPieceColumns;
  }
  [[gnu::always_inline]] static constexpr uint32_t most_apart(uint32_t n_dims) {
    return n_dims / 2;
  }
  [[gnu::always_inline]] static constexpr size_t ends_at(uint32_t n_dims) {
    return size_t{2} * n_dims;
  }
  [[gnu::always_inline]] static constexpr size_t apart_at(uint32_t n_dims) {
    return ends_at(n_dims) + (n_pieces(n_dims) + 1) / 2 * sizeof(uint32_t);
  }
  [[gnu::always_inline]] static constexpr size_t numbers_at(uint32_t n_dims) {
    return (apart_at(n_dims) + most_apart(n_dims) * sizeof(Apart) + 63) / 64 * 64;
  }
};

// One tile of the cache as one KV head sees it: for each group of 16 positions the first element of
// its keys [head_dim][block_size] and of its values [16][value_stride]. Integers lie as
// kKeyPositions says, keys and values of bf16 as kKeyPairDims does; values[g] of an even g is where
// 32 positions begin. Groups that hold no position in [first, end) are never read.
struct KvTile {
  PackedTile packed;  // in place of keys and values, which are null then
  const void* keys[kTileGroups];
  const void* values[kTileGroups];
  const uint16_t* key_scales[kTileGroups];    // f16, of integers
  const uint16_t* value_scales[kTileGroups];  // f16, of integers: [columns / 32][block_size]
  uint32_t block_size;
  // value_dim rounded up to 16, of integers to 32: of floats the elements from one position to the
  // next.
  uint32_t value_stride;
  uint32_t first, end;  // groups [first, end) are read
  // Bytes from whatever is read to what takes its place in what is read after the tile: score_tile
  // and accumulate_tile ask the caches for that while they go. From the second half of values on,
  // the second one.
  ptrdiff_t ahead, second_ahead;
  bool packed_is_next;  // that is a packed tile
  // Groups [wanted_first, wanted_end) will be read there. Those that the tile does not hold itself
  // lie beside the others, in one block. As yet for few rows of vdpbf16ps alone.
  uint32_t wanted_first, wanted_end;
};

}  // namespace bp::cpu
