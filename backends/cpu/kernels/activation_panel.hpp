#pragma once
// How rows of activations lie that products of quantised weights read.
//
// Compiled with wide instructions enabled: see kernel_table.hpp.

#include <cstdint>

namespace bp::cpu {

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

// Half sums and records begin at multiples of 64 bytes. Static: see kernel_table.hpp.
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

// Widths of panels that have kernels, descending; every table has all up to its max_panel_rows.
inline constexpr uint32_t kPanelWidths[] = {kTileRows, 6, 5, 4, 3, 2, 1};
// Where no more rows meet a strip, memory bounds them: it is read from end to end.
inline constexpr uint32_t kStreamedRows = 4;
inline constexpr uint32_t kMaxPanelRows = 6;  // of strip_dot; tile_dot takes kTileRows

}  // namespace bp::cpu
