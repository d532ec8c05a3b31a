#pragma once
// The interface between ISA-specific kernels and the rest of the backend: plain functions over
// plain memory. One table per instruction set; which one is chosen at run time.
//
// This header is compiled with wide instructions enabled: nothing in it may be a template instance
// or an inline function, but a static or always inlined one, that the linker could merge into
// generic code.

#include <cstddef>
#include <cstdint>
#include "backends/cpu/kernels/activation_panel.hpp"
#include "backends/cpu/kernels/bf16_weights.hpp"
#include "backends/cpu/kernels/kv_tile.hpp"
#include "backends/cpu/kernels/weight_strips.hpp"

namespace bp::cpu {

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

// y[t * y_stride + r] = row r of the strip . row t of the panel, for 16 rows and n panel rows.
// Within 32 (16) columns of one scale sums are exact integers; scales fold them in float in
// ascending order of columns, so that a result does not depend on n. is_first: no other panel has
// met the strip; weights that come after it are asked for.
using StripDot = void (*)(const uint8_t* strip, bool is_first, uint32_t n_columns,
                          const int32_t* panel, float* y, size_t y_stride);

// The same for a strip and the one that begins strip_bytes after it, whose results stand beside.
using StripPairDot = void (*)(const uint8_t* strip, size_t strip_bytes, Ahead ahead,
                              uint32_t n_columns, const int32_t* panel, float* y, size_t y_stride);

// Like StripPairDot for a part of two strips, which it unpacks, kUnpackedBytes apart, or which are
// unpacked already. Sums go on from those of the parts before it, which are in y.
using UnpackingPairDot = void (*)(const uint8_t* strip, size_t strip_bytes, const StripPart& part,
                                  Ahead ahead, const int32_t* panel, float* y, size_t y_stride,
                                  uint8_t* unpacked);
using UnpackedPairDot = void (*)(const uint8_t* unpacked, const StripPart& part, Ahead ahead,
                                 const int32_t* panel, float* y, size_t y_stride);

// The same for n_panels panels of kTileRows rows, panel_words apart, and strips whose results stand
// side by side. scratch has room for tile_scratch_bytes, aligned to 64.
using TileDot = void (*)(const TileStrips& strips, uint32_t n_columns, const int32_t* panels,
                         size_t panel_words, uint32_t n_panels, float* y, size_t y_stride,
                         uint8_t* scratch);

enum class FloatType : uint8_t { kF32, kF16, kBF16 };
inline constexpr uint32_t kFloatTypes = 3;

// y[t * y_stride + r] = w row r . x row t for n_w_rows and n_x_rows. Each dot product sums 16 lanes
// in ascending order of columns and then the lanes in a fixed tree.
using FloatDot = void (*)(const void* w, size_t w_stride_bytes, uint32_t n_w_rows, const float* x,
                          size_t x_stride, uint32_t n_x_rows, uint32_t n_columns, float* y,
                          size_t y_stride);

// Activations of bf16 products: rounded to bf16, in panels of the kernels' bf16_panel_rows (the
// last has fewer) in a layout of their own; a panel begins at its first row times n_columns
// elements. n_columns is a multiple of kBf16Columns. An element has the kernels' bf16_bytes.
//
// Writes row t of a panel of n rows from x [n_columns].
using Bf16Pack = void (*)(const float* x, uint32_t n_columns, void* panel, uint32_t n, uint32_t t);

// y[t * y_stride + r] = w row r . x row t for n_w_rows <= kBf16Strips * kStripRows rows and
// n_x_rows rows in panels, in float32; y has room for whole strips. A dot product's order of sums
// depends on nothing but the kernels. scratch: for strips in kSplit, elements
// [kBf16Strips * kStripRows, n_columns] aligned to 64.
inline constexpr uint32_t kBf16Strips = 2;
using Bf16Dot = void (*)(const Bf16Weights& w, uint32_t n_w_rows, const void* panels,
                         uint32_t n_x_rows, uint32_t n_columns, float* y, size_t y_stride,
                         void* scratch);

// Rows of queries that attention kernels take at once.
inline constexpr uint32_t kMaxQueryRows = 32;

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
