#pragma once
// Strips: 16 rows of a quantised weight with their bits interleaved, so that one activation serves
// 16 rows and no sum runs across lanes. A strip is a list of records, one after another along the
// columns; a record is a header and one body per 32 columns ("block").
//
//   layout   columns  header                                              body
//   q4_0     64       f16 d[2][16]                                        nibbles
//   q4_1     32       f16 d[16], f16 m[16]                                nibbles
//   q5_0     64       f16 d[2][16]                                        nibbles, bits
//   q5_1     32       f16 d[16], f16 m[16]                                nibbles, bits
//   q8_0     64       f16 d[2][16]                                        bytes
//   q2_K     256      f16 d[16], f16 -dmin[16], u8 scales[16][16] (minimum above)   pairs
//   q3_K     256      f32 -d[16], i8 -scale[16][16]                       pairs, bits
//   q4_K     256      f16 d[16], f16 -dmin[16], u8 scale[8][16], u8 min[8][16]      nibbles
//   q5_K     256      as q4_K                                             nibbles, bits
//   q6_K     256      f32 d[16], i8 scale[16][16]                         nibbles, pairs
//   q8_K     256      f32 d[16]                                           bytes
//   iq4_nl   64       f16 d[2][16]                                        nibbles
//   iq4_xs   256      f32 d[16], i8 scale[8][16]                          nibbles
//   iq3_xxs  256      as iq4_xs                                           nibbles
//   iq3_s    256      as iq4_xs                                           nibbles
//   iq2_xxs  256      as iq4_xs                                           pairs, bits
//   iq2_s    256      f32 d[16], i8 scale[16][16]                         pairs, bits
//   iq1_s    256      as iq4_xs                                           pairs, bits
//   iq1_m    256      as iq2_s                                            pairs, bits
//   mxfp4    64       bf16 d[2][16]                                       nibbles
//   nvfp4    64       f16 d[4][16]                                        nibbles
//   q2_0     256      f16 d[4][16]                                        pairs
//
// Other block types are kept in one of these with their exact values: q8_1 as q8_0, iq2_xs as
// iq2_s, tq1_0, tq2_0 and q1_0 as q2_0. Of the code books' entries only the few distinct values are
// kept, as codes into the tables below: unpacking is one shuffle, where entries would be gathered.
//
//   nibbles  u8[4][16][4]: byte [j][r][i] holds column 4j+i of row r below, column 16+4j+i above
//   pairs    u8[2][16][4]: bits 2s and 2s+1 of byte [h][r][i] are two bits of column 16h+4s+i of
//            row r: bits 4 and 5 above nibbles, else bits 0 and 1
//   bits     u8[16][4]: bit k of byte [r][i] is the next higher bit of column 4k+i of row r
//   bytes    i8[8][16][4]: column 4k+i of row r
//
// Every part begins at a multiple of 64 bytes. Rows past the end of a weight are zeros, and so are
// blocks past the last column.
//
// Compiled with wide instructions enabled too: constants only.

#include <cstdint>

#include "backends/cpu/kernels/weight_strips.hpp"

namespace bp::cpu {

struct StripShape {
  uint32_t record_columns;
  uint32_t header_bytes;
  uint32_t body_bytes;  // of 32 columns
};

// Raised whenever a type's strips change, so that files that keep strips are made anew.
inline constexpr uint32_t kStripVersion = 5;

inline constexpr StripShape kStripShapes[kStripLayouts] = {
    {64, 64, 256},    // q4_0
    {32, 64, 256},    // q4_1
    {64, 64, 320},    // q5_0
    {32, 64, 320},    // q5_1
    {64, 64, 512},    // q8_0
    {256, 320, 128},  // q2_K
    {256, 320, 192},  // q3_K
    {256, 320, 256},  // q4_K
    {256, 320, 320},  // q5_K
    {256, 320, 384},  // q6_K
    {256, 64, 512},   // q8_K
    {64, 64, 256},    // iq4_nl
    {256, 192, 256},  // iq4_xs
    {256, 192, 256},  // iq3_xxs
    {256, 192, 256},  // iq3_s
    {256, 192, 192},  // iq2_xxs
    {256, 320, 192},  // iq2_s
    {256, 192, 192},  // iq1_s
    {256, 320, 192},  // iq1_m
    {64, 64, 256},    // mxfp4
    {64, 128, 256},   // nvfp4
    {256, 128, 128},  // q2_0
};

// What codes stand for, in units of the scale.
struct StripValues {
  int8_t of[16];
};
inline constexpr StripValues kIq4StripValues = {
    {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}};
// Twice the values of e2m1.
inline constexpr StripValues kFp4StripValues = {
    {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12}};
// Magnitudes below, their negatives above.
inline constexpr StripValues kIq3XxsStripValues = {
    {4, 12, 20, 28, 36, 44, 52, 62, -4, -12, -20, -28, -36, -44, -52, -62}};
inline constexpr StripValues kIq3SStripValues = {
    {1, 3, 5, 7, 9, 11, 13, 15, -1, -3, -5, -7, -9, -11, -13, -15}};
inline constexpr StripValues kIq2StripValues = {{8, 25, 43, 0, -8, -25, -43, 0}};
// Eight times 0, 1, none, -1 with an eighth added below and taken off above.
inline constexpr StripValues kIq1StripValues = {{1, 9, 0, -7, -1, 7, 0, -9}};

}  // namespace bp::cpu
