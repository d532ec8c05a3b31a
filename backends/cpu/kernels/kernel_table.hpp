#pragma once
// The interface between ISA-specific kernels and the rest of the backend: plain functions over
// plain memory. One table per instruction set; which one is chosen at run time.
//
// This header is compiled with wide instructions enabled: nothing in it may be a template instance
// or an inline function, but a static or always inlined one, that the linker could merge into
// generic code.

#include <cstddef>
#include <cstdint>

namespace bp::cpu {

// Weights stand in strips of kStripRows rows; a strip is the unit of work of a matrix product.
inline constexpr uint32_t kStripRows = 16;

// Attention reads the cache in tiles of kTilePositions absolute positions, whatever the block size;
// a tile is kTileGroups groups of 16 positions, each within one block.
inline constexpr uint32_t kTilePositions = 64;
inline constexpr uint32_t kTileGroups = 4;

// Rows of queries that attention kernels take at once.
inline constexpr uint32_t kMaxQueryRows = 32;

// Keys and values of bf16 stand in pairs, so that one instruction multiplies two: keys of 16
// positions as [dims / 2][16][2], dims rounded up to kKeyPairDims with zeros; values of 32
// positions as [columns / 16][16][16][2], column blocks, pairs of positions, columns, positions of
// the pair. Both are what a tile register takes.
inline constexpr uint32_t kKeyPairDims = 32;
inline constexpr uint32_t kValuePairPositions = 32;

// Activations of quantised products: 8-bit integers with one scale per 32 columns ("block"), in
// panels of n rows. A panel is
//   int32 n_seconds             second records in use
//   int32 second_of[n_columns / 32]   index of a block's second record, or -1
//   unused words up to panel_header_words
//   half sums of each 256 columns, kHalfSumWords * n words:
//     int16 sum[8][n][2]    of the values of 16 columns, those of second records among them, as
//     float unit[n]         multiples of unit: minimums multiply them as integers
//   unused words up to panel_records_word
//   a record for each block, then the second records; each kPanelWords * n words of 4 bytes:
//     int8  q[8][n][4]      four consecutive columns of each row in a word
//     float scale[n]        x = scale * q
//     float sum[n]          scale * sum of the 32 q
//     int32 start[3][n]     where sums of products begin with weights' quants 128 above their
//                           values: the instruction set's kSumStart - 128 * sum of the 32 q, of the
//                           first 16 and of the other 16
// Panels of kTileRows rows hold int8 q[n][32] instead, as tile registers take it.
// A second record holds what rounding left of the rows in which the block has an outlier, a value
// above kOutlierRatio times the row's root mean square, and zeros for the other rows. Outliers come
// in few columns, carry most of a row's weight in trained models, and would cost the 31 values
// beside them nearly all their bits: on SmolLM2 they
// are under 3 % of the blocks and about half of the error of the logits.
inline constexpr uint32_t kPanelWords = 13;
inline constexpr uint32_t kPanelColumns = 32;
inline constexpr uint32_t kTileRows = 16;
inline constexpr uint32_t kHalfSumBlocks = 8;
inline constexpr uint32_t kHalfSumWords = kHalfSumBlocks + 1;

// Half sums and records begin at multiples of 64 bytes. Static: see above.
static inline uint32_t panel_header_words(uint32_t n_blocks) {
  return (1 + n_blocks + 15) / 16 * 16;
}
static inline uint32_t half_sum_words(uint32_t n_blocks) {  // of a row
  return (n_blocks + kHalfSumBlocks - 1) / kHalfSumBlocks * kHalfSumWords;
}
static inline uint32_t panel_records_word(uint32_t n_blocks, uint32_t n) {
  return panel_header_words(n_blocks) + (half_sum_words(n_blocks) * n + 15) / 16 * 16;
}
inline constexpr uint32_t kOutlierRatio = 16;

// How a strip of weights is laid out; described in weights/strip_layout.hpp.
enum class StripLayout : uint8_t {
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ8_0,
  kQ2_K,
  kQ3_K,
  kQ4_K,
  kQ5_K,
  kQ6_K,
  kQ8_K,
  kIq4Nl,
  kIq4Xs,
  kIq3Xxs,
  kIq3S,
  kIq2Xxs,
  kIq2S,
  kIq1S,
  kIq1M,
  kMxfp4,
  kNvfp4,
  kQ2_0,
};
inline constexpr uint32_t kStripLayouts = 22;

enum class FloatType : uint8_t { kF32, kF16, kBF16 };
inline constexpr uint32_t kFloatTypes = 3;

// Types of the cache. The first are the FloatTypes; q8_0 and q4_0 have one f16 scale per
// kKvScaleDims dimensions of a head, the last of them perhaps fewer.
enum class KvType : uint8_t { kF32, kF16, kBF16, kQ8_0, kQ4_0 };
inline constexpr uint32_t kKvTypes = 5;
inline constexpr uint32_t kKvScaleDims = 32;

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

// Widths of panels that have kernels, descending; every table has all up to its max_panel_rows.
inline constexpr uint32_t kPanelWidths[] = {kTileRows, 6, 5, 4, 3, 2, 1};
// Where no more rows meet a strip, memory bounds them: it is read from end to end.
inline constexpr uint32_t kStreamedRows = 4;
inline constexpr uint32_t kMaxPanelRows = 6;  // of strip_dot; tile_dot takes kTileRows

// y[t * y_stride + r] = row r of the strip . row t of the panel, for 16 rows and n panel rows.
// Within 32 (16) columns of one scale sums are exact integers; scales fold them in float in
// ascending order of columns, so that a result does not depend on n. is_first: no other panel has
// met the strip; weights that come after it are asked for.
using StripDot = void (*)(const uint8_t* strip, bool is_first, uint32_t n_columns,
                          const int32_t* panel, float* y, size_t y_stride);

// The processor on which the way among several that give the same results was measured: how few
// rows of activations ask for the weights that they wait for, and what products of more rows keep.
enum class Tuning : uint8_t {
  kZen5,   // few rows ask into the first-level cache alone, from afar; any other processor, too
  kIntel,  // into the second from afar, into the first, which waits for few lines, from near
  kZen4,   // likewise, but one row of strips as kZen5, and all before a block
};

// What a panel asks memory for: at each 32 columns so many lines of 64 bytes, from there on.
struct Ahead {
  const uint8_t* from;
  uint32_t n_lines;
};

// The same for a strip and the one that begins strip_bytes after it, whose results stand beside.
using StripPairDot = void (*)(const uint8_t* strip, size_t strip_bytes, Ahead ahead,
                              uint32_t n_columns, const int32_t* panel, float* y, size_t y_stride);

// A part of a strip whose quants are bytes, as products take them, and whose scales are floats: of
// at most kUnpackedBlocks times 32 columns, so that two about fill the first-level cache.
struct StripPart {
  uint32_t begin, end;  // in blocks of 32 columns; begin is a multiple of kUnpackedBlocks
  uint32_t n_blocks;    // of the strip
};
inline constexpr uint32_t kUnpackedBlocks = 32;
inline constexpr uint32_t kUnpackedBlockBytes = 640;  // at most
inline constexpr uint32_t kUnpackedBytes = kUnpackedBlocks * kUnpackedBlockBytes;

// Like StripPairDot for a part of two strips, which it unpacks, kUnpackedBytes apart, or which are
// unpacked already. Sums go on from those of the parts before it, which are in y.
using UnpackingPairDot = void (*)(const uint8_t* strip, size_t strip_bytes, const StripPart& part,
                                  Ahead ahead, const int32_t* panel, float* y, size_t y_stride,
                                  uint8_t* unpacked);
using UnpackedPairDot = void (*)(const uint8_t* unpacked, const StripPart& part, Ahead ahead,
                                 const int32_t* panel, float* y, size_t y_stride);

// n strips of one weight, one after another.
struct TileStrips {
  const uint8_t* first;
  size_t bytes;  // of a strip
  uint32_t n;
};

// The same for n_panels panels of kTileRows rows, panel_words apart, and strips whose results stand
// side by side. scratch has room for tile_scratch_bytes, aligned to 64.
using TileDot = void (*)(const TileStrips& strips, uint32_t n_columns, const int32_t* panels,
                         size_t panel_words, uint32_t n_panels, float* y, size_t y_stride,
                         uint8_t* scratch);

// Of kTileStrips strips kTilePartBlocks times 32 columns stand unpacked at once.
inline constexpr uint32_t kTileStrips = 4;
inline constexpr uint32_t kTilePartBlocks = 32;
// What 32 columns of a strip take unpacked, and the list of their products with a first and a
// second record.
inline constexpr uint32_t kTileBlockBytes = 896;
inline constexpr uint32_t kTileProductBytes = 48;
// Static: see above.
static inline size_t tile_unpacked_bytes(uint32_t n_blocks) {
  const size_t n = n_blocks < kTilePartBlocks ? n_blocks : kTilePartBlocks;
  return kTileStrips * n * kTileBlockBytes;
}
static inline size_t tile_scratch_bytes(uint32_t n_columns) {
  const uint32_t n_blocks = n_columns / kPanelColumns;
  return tile_unpacked_bytes(n_blocks) + (n_blocks + size_t{2}) * kTileProductBytes;
}

// y[t * y_stride + r] = w row r . x row t for n_w_rows and n_x_rows. Each dot product sums 16 lanes
// in ascending order of columns and then the lanes in a fixed tree.
using FloatDot = void (*)(const void* w, size_t w_stride_bytes, uint32_t n_w_rows, const float* x,
                          size_t x_stride, uint32_t n_x_rows, uint32_t n_columns, float* y,
                          size_t y_stride);

// Activations of bf16 products: rounded to bf16, in panels of the kernels' bf16_panel_rows (the
// last has fewer) in a layout of their own; a panel begins at its first row times n_columns
// elements. n_columns is a multiple of kBf16Columns. An element has the kernels' bf16_bytes.
inline constexpr uint32_t kBf16Columns = 32;

// Writes row t of a panel of n rows from x [n_columns].
using Bf16Pack = void (*)(const float* x, uint32_t n_columns, void* panel, uint32_t n, uint32_t t);

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

// y[t * y_stride + r] = w row r . x row t for n_w_rows <= kBf16Strips * kStripRows rows and
// n_x_rows rows in panels, in float32; y has room for whole strips. A dot product's order of sums
// depends on nothing but the kernels. scratch: for strips in kSplit, elements
// [kBf16Strips * kStripRows, n_columns] aligned to 64.
inline constexpr uint32_t kBf16Strips = 2;
using Bf16Dot = void (*)(const Bf16Weights& w, uint32_t n_w_rows, const void* panels,
                         uint32_t n_x_rows, uint32_t n_columns, float* y, size_t y_stride,
                         void* scratch);

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

// scores[r * 64 + i] = query row r . key of position i, for n_rows <= kMaxQueryRows packed rows.
using ScoreTile = void (*)(const KvTile& tile, const float* queries, size_t query_stride,
                           uint32_t n_rows, uint32_t head_dim, float* scores);

// What rows gather tile by tile: maxima [r], sums [r * sums_stride + 0 to 15] of probabilities, and
// factors [r] for what was accumulated before the last tile.
struct RunningSoftmax {
  float* maxima;
  float* sums;
  size_t sums_stride;
  float* factors;
};

// Scores [n_rows, 64] become probabilities against the running maxima, in the form that
// accumulate_tile takes: 64 floats, or as many bf16. Positions outside [first, end) get 0. A
// maximum is log2(e) times that of the scaled, capped scores.
using SoftmaxTile = void (*)(float* scores, uint32_t n_rows, uint32_t first, uint32_t end,
                             float scale, float softcap, const RunningSoftmax& rows);

// out[r] += sum over positions [first, end) of probability i of row r * value of position i, for
// n_rows <= kMaxQueryRows rows, probabilities 64 floats apart. Values of bf16 are read in pairs or
// 32 positions at once; what lies outside must be finite, its probability is 0.
using AccumulateTile = void (*)(const KvTile& tile, const float* probabilities, uint32_t n_rows,
                                uint32_t first, uint32_t end, float* out, size_t out_stride);

// Whether all that accumulate_tile of a type reads for positions [first, end) is finite. It is not
// asked of integers: what these give depends on the range, whose largest scale stands for it.
using ValuesFinite = bool (*)(const KvTile& tile, uint32_t first, uint32_t end);

// What one token of the delta rule is to all columns of a head.
struct DeltaToken {
  const float* q;  // [key_dim], normalised and scaled
  const float* k;  // [key_dim], normalised
  uint32_t key_dim;
  float k_dot_q;
  float decay;  // of the state
  float beta;   // share of what is remembered anew
};

struct Kernels {
  const char* name;
  uint32_t max_panel_rows;
  StripDot strip_dot[kStripLayouts][kMaxPanelRows + 1];  // null where no panel has that width
  bool pairs_strips;  // strips by twos are faster, of some layouts and widths at least
  // Null where they are not.
  StripPairDot strip_pair_dot[kStripLayouts][kMaxPanelRows + 1];
  // Null where strips as they are serve many rows as well; the first one is for the widest panels
  // but tiles. Panels of widths that are too narrow to gain take strips as they are.
  UnpackingPairDot unpacking_pair_dot[kStripLayouts];
  UnpackedPairDot unpacked_pair_dot[kStripLayouts][kMaxPanelRows + 1];
  uint32_t unpacked_from[kStripLayouts];  // so many rows on
  TileDot tile_dot[kStripLayouts];        // null where max_panel_rows is less than kTileRows
  FloatDot float_dot[kFloatTypes];
  Bf16Pack bf16_pack;  // both null where bf16 goes by float_dot
  Bf16Dot bf16_dot;
  uint32_t bf16_bytes;       // of an element: 2, or 4 where products are of floats
  uint32_t bf16_panel_rows;  // at most
  Bf16Layout bf16_layout;    // that bf16_dot reads best; kRows without it

  // Writes row t of a panel of n rows from x [n_columns]; rows are written in order from 0. The
  // panel has room for max_seconds second records.
  void (*quantize_row)(const float* x, uint32_t n_columns, int32_t* panel, uint32_t n, uint32_t t,
                       uint32_t max_seconds);

  float (*sum)(const float* x, size_t n);
  float (*sum_of_squared_differences)(const float* x, float mean, size_t n);
  // y = (x - mean) * factor * (weight + weight_offset) + bias; weight and bias may be null.
  void (*affine)(const float* x, float mean, float factor, const float* weight, float weight_offset,
                 const float* bias, float* y, size_t n);
  void (*add)(const float* a, const float* b, float* y, size_t n);
  void (*multiply)(const float* a, const float* b, float* y, size_t n);
  void (*multiply_add)(const float* x, float factor, const float* addend, float* y, size_t n);
  void (*scale)(const float* x, float factor, float* y, size_t n);
  void (*softcap)(const float* x, float cap, float* y, size_t n);
  void (*activate)(uint32_t activation, const float* x, float* y, size_t n);
  // The first row t, first <= t < n_rows, of which not all n values are below bounds[t], as NaN
  // never is; else n_rows.
  uint32_t (*find_reaching)(const float* x, size_t stride, const float* bounds, uint32_t first,
                            uint32_t n_rows, uint32_t n);
  // Turns the pairs (x[i], x[i + n_pairs]) by angles given by cosine and sine.
  void (*rotate_halves)(const float* cosines, const float* sines, size_t n_pairs, float* x);

  float (*dot)(const float* a, const float* b, size_t n);
  // y = sum over j < n_rows of rows[j] * row j of the weights + bias; bias may be null.
  void (*convolve)(const float* const* rows, const float* weights, size_t weight_stride,
                   uint32_t n_rows, const float* bias, float* y, size_t n);
  // Columns of one head, v and o [n_columns]; the state [n_columns / 16, rounded up][key_dim][16]
  // is read from `from` and written to `to`, which may be the same.
  void (*delta_rule)(const DeltaToken& token, const float* from, float* to, const float* v,
                     float* o, size_t n_columns);

  void (*from_f32[kFloatTypes])(const float* x, void* y, size_t n);  // rounds to nearest even

  // By the type of the keys. pack_query turns x [head_dim], zeros after it up to a multiple of
  // kKvScaleDims, into what score_tile takes, where it stands; null where that is floats.
  void (*pack_query[kKvTypes])(float* x, uint32_t head_dim);
  ScoreTile score_tile[kKvTypes];
  // So many rows with keys and values of a type need nothing of what KvTile says is wanted to be
  // asked for again.
  uint32_t wanting_rows[kKvTypes];
  // By the type of the values.
  SoftmaxTile softmax_tile[kKvTypes];
  AccumulateTile accumulate_tile[kKvTypes];
  ValuesFinite values_finite[kKvTypes];  // null for integers
  // Null where tiles of bf16 stay as they are. False: too much would stand apart, or something is
  // not finite.
  bool (*pack_tile)(const KvTile& tile, uint32_t n_dims, uint8_t* packed);
  // To keys and values [128 * n_dims] in the order of KvTile's, aligned to 64, of a packed tile.
  void (*unpack_tile)(const KvTile& tile, uint16_t* to);
  uint32_t packed_rows;  // up to so many score_tile and accumulate_tile take packed tiles as well
  // A value [n] to its elements of pairs of positions, the first of which is `pairs`; the last 16
  // columns are filled up with zeros. The other position's elements are not touched: another thread
  // may store them.
  void (*store_value_pairs)(const float* value, uint32_t n, uint16_t* pairs);
  // x [n], n <= kKvScaleDims, of a key or a value to integers of the type, 8 bits or -8 to 7: scale
  // is f16; q from n on is 0. Null for floats.
  void (*quantize_kv[kKvTypes])(const float* x, uint32_t n, bool is_key, int8_t q[kKvScaleDims],
                                uint16_t* scale);
};

}  // namespace bp::cpu
