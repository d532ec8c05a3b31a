// Products of bf16 weights with activations rounded to bf16, two columns a lane. A panel of n rows
// is [columns / kBf16Columns][n][kBf16Columns]: rows apart by a power of two would share few sets
// of the first-level cache.

#include "backends/cpu/kernels/simd_avx512.hpp"
// clang-format keeps what defines the lanes first.
#include "backends/cpu/kernels/kernel_table.hpp"
#include "backends/cpu/kernels/unroll.hpp"

namespace bp::cpu::avx512_bf16 {
namespace {

using namespace avx512;

// Columns that a tile takes at once, so that so many of a panel's rows stay in the first-level
// cache while rows of weights pass by. A multiple of kBf16Columns.
constexpr uint32_t kBlockColumns = 512;
constexpr uint32_t kBlocksAhead = 2;  // that are asked for
constexpr uint32_t kTileWeights = 4;
constexpr uint32_t kTileActivations = 4;

// How far ahead tiles of four rows are asked for, and into the cache of which level, by N rows of
// activations: one waits for memory alone.
template <uint32_t N>
constexpr uint32_t kBytesAhead = N == 1 ? 4096 : 8192;
template <uint32_t N>
constexpr int kLevelAhead = N == 1 ? 2 : 1;

// Lines of weights to ask for, one of each row a step.
struct Lines {
  const uint16_t* first;
  size_t row_stride, step;  // in elements
};

// What products of R rows ask for at each step: lines of every Step-th row from First on, `far`
// into the cache of a level, `near`, of what the second holds already, into the first.
template <uint32_t First, uint32_t Step, int Level = 2>
struct Far {
  Lines far;
  template <uint32_t R>
  __attribute__((always_inline)) void ask() {
    BP_UNROLL for (uint32_t r = First; r < R; r += Step) {
      __builtin_prefetch(far.first + r * far.row_stride, 0, 4 - Level);
    }
    far.first += far.step;
  }
};
template <uint32_t First, uint32_t Step>
struct FarAndNear {
  Far<First, Step> far;
  Lines near;
  template <uint32_t R>
  __attribute__((always_inline)) void ask() {
    far.template ask<R>();
    BP_UNROLL for (uint32_t r = First; r < R; r += Step) {
      __builtin_prefetch(near.first + r * near.row_stride);
    }
    near.first += near.step;
  }
};
struct Nothing {
  template <uint32_t R>
  void ask() {}
};

void pack(const float* x, uint32_t n_columns, uint16_t* panel, uint32_t n, uint32_t t) {
  uint16_t* to = panel + t * kBf16Columns;
  for (uint32_t c = 0; c < n_columns; c += kBf16Columns, to += size_t{n} * kBf16Columns) {
    store_bf16(to, load(x + c));
    store_bf16(to + 16, load(x + c + 16));
  }
}

// Rows of one panel.
struct PanelRows {
  const uint16_t* first;
  uint32_t n_panel;  // rows of the panel

  const uint16_t* at(uint32_t row, uint32_t column) const {
    return first + size_t{column} * n_panel + row * kBf16Columns;
  }
  PanelRows from(uint32_t row) const { return {first + row * kBf16Columns, n_panel}; }
};

inline __m512bh columns_at(const uint16_t* p) {
  return reinterpret_cast<__m512bh>(_mm512_loadu_si512(p));
}

template <uint32_t R, uint32_t N>
struct Lanes {
  F32x16 sums[R][N];
};

template <uint32_t R, uint32_t N>
inline void clear(Lanes<R, N>& lanes) {
  BP_UNROLL for (uint32_t r = 0; r < R; ++r) {
    BP_UNROLL for (uint32_t t = 0; t < N; ++t) lanes.sums[r][t] = zero();
  }
}

// R rows of weights from w_row on times N rows, columns [first, first + n_columns).
template <uint32_t R, uint32_t N, class Asks>
inline void add_columns(const Bf16Weights& w, uint32_t w_row, const PanelRows& x, uint32_t first,
                        uint32_t n_columns, Asks asks, Lanes<R, N>& lanes) {
  const uint16_t* own = w.at(w_row, first);
  const uint16_t* own_x = x.at(0, first);
  const size_t x_step = size_t{x.n_panel} * kBf16Columns;
  for (uint32_t c = 0; c < n_columns; c += kBf16Columns, own += w.tile_stride, own_x += x_step) {
    asks.template ask<R>();
    __m512bh xs[N];
    BP_UNROLL for (uint32_t t = 0; t < N; ++t) xs[t] = columns_at(own_x + t * kBf16Columns);
    BP_UNROLL for (uint32_t r = 0; r < R; ++r) {
      const __m512bh ws = columns_at(own + r * w.row_stride);
      BP_UNROLL for (uint32_t t = 0; t < N; ++t) {
        lanes.sums[r][t].v = _mm512_dpbf16_ps(lanes.sums[r][t].v, ws, xs[t]);
      }
    }
  }
}

// Halves of a, then of b, each the sum of two; of each 256, 128 and 64 bits.
inline __m512 add_halves(__m512 a, __m512 b) {
  return _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xee));
}
inline __m512 add_quarters(__m512 a, __m512 b) {
  return _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xdd));
}
inline __m512 add_pairs(__m512 a, __m512 b) {
  return _mm512_add_ps(_mm512_shuffle_ps(a, b, 0x44), _mm512_shuffle_ps(a, b, 0xee));
}
inline __m512 add_lanes(__m512 a, __m512 b) {
  return _mm512_add_ps(_mm512_shuffle_ps(a, b, 0x88), _mm512_shuffle_ps(a, b, 0xdd));
}

// The sums of 4 by N vectors' lanes, each in the order of reduce_add; four rows of weights lie
// together. Of row t of N beyond the last comes anything.
template <uint32_t N>
inline __m512 reduce_all(const Lanes<4, N>& lanes) {
  __m512 rows[4];
  BP_UNROLL for (uint32_t r = 0; r < 4; ++r) {
    const F32x16* sums = lanes.sums[r];
    const __m512 low = add_halves(sums[0].v, sums[1].v);
    const __m512 high = N < 3 ? low : add_halves(sums[N < 3 ? 0 : 2].v, sums[N - 1].v);
    rows[r] = add_quarters(low, high);
  }
  return add_lanes(add_pairs(rows[0], rows[1]), add_pairs(rows[2], rows[3]));
}

template <uint32_t R, uint32_t N>
inline void store_sums(const Lanes<R, N>& lanes, float* y, size_t y_stride) {
  if constexpr (R == 4 && N > 1) {
    const __m512 sums = reduce_all(lanes);
    _mm_storeu_ps(y, _mm512_castps512_ps128(sums));
    _mm_storeu_ps(y + y_stride, _mm512_extractf32x4_ps(sums, 1));
    if constexpr (N > 2) _mm_storeu_ps(y + 2 * y_stride, _mm512_extractf32x4_ps(sums, 2));
    if constexpr (N > 3) _mm_storeu_ps(y + 3 * y_stride, _mm512_extractf32x4_ps(sums, 3));
  } else {
    BP_UNROLL for (uint32_t r = 0; r < R; ++r) {
      BP_UNROLL for (uint32_t t = 0; t < N; ++t) y[t * y_stride + r] = reduce_add(lanes.sums[r][t]);
    }
  }
}

template <uint32_t R, uint32_t N>
inline void dot_tile(const Bf16Weights& w, uint32_t w_row, const PanelRows& x, uint32_t n_columns,
                     float* y, size_t y_stride) {
  Lanes<R, N> lanes;
  clear(lanes);
  const uint16_t* own = w.at(w_row, 0);
  if (w.is_tiled()) {  // they lie in a line
    const Lines ahead{own + kBytesAhead<N> / sizeof(uint16_t), w.row_stride, w.tile_stride};
    add_columns(w, w_row, x, 0, n_columns, Far<0, 1, kLevelAhead<N>>{ahead}, lanes);
  } else {  // the same columns of the rows that come next
    const Lines ahead{own + R * w.row_stride, w.row_stride, w.tile_stride};
    add_columns(w, w_row, x, 0, n_columns, Far<0, 1>{ahead}, lanes);
  }
  store_sums(lanes, y + w_row, y_stride);
}

template <uint32_t N>
inline void dot_rows(const Bf16Weights& w, uint32_t n_w_rows, const PanelRows& x,
                     uint32_t n_columns, float* y, size_t y_stride) {
  uint32_t r = 0;
  for (; r + kTileWeights <= n_w_rows; r += kTileWeights) {
    dot_tile<kTileWeights, N>(w, r, x, n_columns, y, y_stride);
  }
  for (; r < n_w_rows; ++r) dot_tile<1, N>(w, r, x, n_columns, y, y_stride);
}

using Tile = Lanes<kTileWeights, kTileActivations>;

// Columns [column, column + n) of four rows of weights times the panel's rows in fours, J and
// after, each of which asks for as many of the lines, if there are any.
template <uint32_t NX, uint32_t J>
inline void add_tiles(const Bf16Weights& w, uint32_t w_row, const PanelRows& x, uint32_t column,
                      uint32_t n, const Lines* far, const Lines& near, Tile* tiles) {
  if constexpr (J < NX) {
    Tile lanes = tiles[J];
    const PanelRows rows = x.from(J * kTileActivations);
    if (far != nullptr) {
      add_columns(w, w_row, rows, column, n, FarAndNear<J, NX>{{*far}, near}, lanes);
    } else {
      add_columns(w, w_row, rows, column, n, Nothing{}, lanes);
    }
    tiles[J] = lanes;
    add_tiles<NX, J + 1>(w, w_row, x, column, n, far, near, tiles);
  }
}

// A whole strip times the first NX * kTileActivations rows of a panel, block by block of columns;
// tiles wait in memory meanwhile. The first panel that meets a strip waits for memory: while it
// multiplies a block, it asks for the second after it, and for the next rows of this one.
template <uint32_t NX>
void dot_block(const Bf16Weights& w, bool is_first, const PanelRows& x, uint32_t n_columns,
               float* y, size_t y_stride) {
  constexpr uint32_t kN = kStripRows / kTileWeights;
  Tile tiles[kN][NX];
  for (auto& row : tiles) {
    for (Tile& tile : row) clear(tile);
  }
  for (uint32_t column = 0; column < n_columns; column += kBlockColumns) {
    const uint32_t n = n_columns - column < kBlockColumns ? n_columns - column : kBlockColumns;
    const uint32_t then = column + kBlocksAhead * kBlockColumns;
    const bool is_there = then < n_columns;
    const bool is_last = column + n == n_columns;
    for (uint32_t i = 0; i < kN; ++i) {
      const uint32_t row = i * kTileWeights;
      const uint16_t* next = is_there ? w.at(row, then) : w.at(kStripRows + row, then - n_columns);
      // Of tiles, as many lines as they lie.
      const Lines far{next, w.is_tiled() ? n : w.row_stride, kBf16Columns};
      const uint16_t* then_rows = i + 1 < kN ? w.at(row + kTileWeights, column)
                                  : is_last  ? w.at(kStripRows, 0)
                                             : w.at(0, column + n);
      const Lines near{then_rows, w.row_stride, w.tile_stride};
      add_tiles<NX, 0>(w, row, x, column, n, is_first ? &far : nullptr, near, tiles[i]);
    }
  }
  for (uint32_t i = 0; i < kN; ++i) {
    for (uint32_t j = 0; j < NX; ++j) {
      store_sums(tiles[i][j], y + j * kTileActivations * y_stride + i * kTileWeights, y_stride);
    }
  }
}

void dot_panel(const Bf16Weights& w, uint32_t n_w_rows, bool is_first, const PanelRows& x,
               uint32_t n_columns, float* y, size_t y_stride) {
  uint32_t t = 0;
  const uint32_t n_fours = x.n_panel / kTileActivations;
  if (n_w_rows == kStripRows && n_fours > 1) {
    if (n_fours == 4) dot_block<4>(w, is_first, x, n_columns, y, y_stride);
    if (n_fours == 3) dot_block<3>(w, is_first, x, n_columns, y, y_stride);
    if (n_fours == 2) dot_block<2>(w, is_first, x, n_columns, y, y_stride);
    t = n_fours * kTileActivations;
  }
  for (; t + kTileActivations <= x.n_panel; t += kTileActivations) {
    dot_rows<kTileActivations>(w, n_w_rows, x.from(t), n_columns, y + t * y_stride, y_stride);
  }
  const PanelRows rest = x.from(t);
  y += t * y_stride;
  if (x.n_panel - t == 3) dot_rows<3>(w, n_w_rows, rest, n_columns, y, y_stride);
  if (x.n_panel - t == 2) dot_rows<2>(w, n_w_rows, rest, n_columns, y, y_stride);
  if (x.n_panel - t == 1) dot_rows<1>(w, n_w_rows, rest, n_columns, y, y_stride);
}

void dot(const Bf16Weights& w, uint32_t n_w_rows, const uint16_t* panels, uint32_t n_x_rows,
         uint32_t n_columns, float* y, size_t y_stride) {
  for (uint32_t t = 0; t < n_x_rows; t += kBf16PanelRows) {
    const uint32_t n = n_x_rows - t < kBf16PanelRows ? n_x_rows - t : kBf16PanelRows;
    dot_panel(w, n_w_rows, t == 0, {panels + size_t{t} * n_columns, n}, n_columns, y + t * y_stride,
              y_stride);
  }
}

}  // namespace

void set_bf16_kernels(Kernels& kernels) {
  kernels.bf16_pack = pack;
  kernels.bf16_dot = dot;
  kernels.bf16_tile_rows = kTileWeights;
}

}  // namespace bp::cpu::avx512_bf16
