#pragma once
// Strips: 16 rows of a quantised weight with their bits interleaved, so that one activation serves
// 16 rows and no sum runs across lanes. A strip is a list of records, one after another along the
// columns; a record is a header and one body per 32 columns ("block").
//
//   layout  columns  header                                              body
//   q4_0    64       f16 d[2][16]                                        nibbles
//   q4_1    32       f16 d[16], f16 m[16]                                nibbles
//   q5_0    64       f16 d[2][16]                                        nibbles, bits
//   q5_1    32       f16 d[16], f16 m[16]                                nibbles, bits
//   q8_0    64       f16 d[2][16]                                        bytes
//   q4_K    256      f16 d[16], f16 -dmin[16], u8 scale[8][16], u8 min[8][16]   nibbles
//   q5_K    256      as q4_K                                             nibbles, bits
//   q6_K    256      f16 d[16], 32 unused bytes, i8 scale[16][16]        nibbles, pairs
//   i8      32       f32 scale[2][16]                                    bytes
//
// i8 serves all other block types: decoded, and rounded to 8 bits with a scale per 16 columns,
// which keeps values that are multiples of such a scale exactly.
//
//   nibbles  u8[4][16][4]: byte [j][r][i] holds column 4j+i of row r below, column 16+4j+i above
//   bits     u64[8]: bit 4r+i of word k is bit 4 of column 4k+i of row r
//   pairs    u8[2][16][4]: bits 2s and 2s+1 of byte [h][r][i] are bits 4 and 5 of column
//            16h+4s+i of row r
//   bytes    i8[8][16][4]: column 4k+i of row r
//
// Every part begins at a multiple of 64 bytes. Rows past the end of a weight are zeros, and so are
// blocks past the last column.
//
// Compiled with wide instructions enabled too: constants only.

#include <cstdint>

#include "backends/cpu/kernels/kernel_table.hpp"

namespace bp::cpu {

struct StripShape {
  uint32_t record_columns;
  uint32_t header_bytes;
  uint32_t body_bytes;  // of 32 columns
};

inline constexpr StripShape kStripShapes[kStripLayouts] = {
    {64, 64, 256},    // q4_0
    {32, 64, 256},    // q4_1
    {64, 64, 320},    // q5_0
    {32, 64, 320},    // q5_1
    {64, 64, 512},    // q8_0
    {256, 320, 256},  // q4_K
    {256, 320, 320},  // q5_K
    {256, 320, 384},  // q6_K
    {32, 128, 512},   // i8
};

}  // namespace bp::cpu
