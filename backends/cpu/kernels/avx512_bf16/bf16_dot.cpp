// Products of bf16 weights with activations rounded to bf16, two columns a lane. Panels are rows
// one after another.

#include "backends/cpu/kernels/simd_avx512.hpp"
// clang-format keeps what defines the lanes first.
#include "backends/cpu/kernels/kernel_table.hpp"
#include "backends/cpu/kernels/unroll.hpp"

namespace bp::cpu::avx512_bf16 {
namespace {

using namespace avx512;

// Columns that a tile takes at once, so that kBlockRows rows of activations and a strip of weights
// of so many columns stay in the first-level cache. A multiple of kBf16Columns.
constexpr uint32_t kBlockColumns = 512;
constexpr uint32_t kBlockRows = 12;
constexpr uint32_t kTileWeights = 4;
constexpr uint32_t kTileActivations = 4;

void pack(const float* x, uint32_t n_columns, uint16_t* panel, uint32_t, uint32_t t) {
  uint16_t* row = panel + size_t{t} * n_columns;
  for (uint32_t c = 0; c < n_columns; c += 16) store_bf16(row + c, load(x + c));
}

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

// R rows of weights from w_row on, columns [first, first + n_columns); x at its first column.
// Ahead, since few rows wait for memory, asks for the same columns of the rows that come next, or
// where these are in tiles, which lie in a line, for the tile after the next two.
template <bool Ahead, uint32_t R, uint32_t N>
inline void add_columns(const Bf16Weights& w, uint32_t w_row, const uint16_t* x, size_t x_stride,
                        uint32_t first, uint32_t n_columns, Lanes<R, N>& lanes) {
  const uint16_t* own = w.at(w_row, first);
  const size_t ahead = w.is_tiled() ? 3 * w.tile_stride : R * w.row_stride;
  for (uint32_t c = 0; c < n_columns; c += kBf16Columns, own += w.tile_stride) {
    if constexpr (Ahead) {
      BP_UNROLL for (uint32_t r = 0; r < R; ++r) {
        __builtin_prefetch(own + ahead + r * w.row_stride, 0, 2);
      }
    }
    __m512bh xs[N];
    BP_UNROLL for (uint32_t t = 0; t < N; ++t) xs[t] = columns_at(x + t * x_stride + c);
    BP_UNROLL for (uint32_t r = 0; r < R; ++r) {
      const __m512bh ws = columns_at(own + r * w.row_stride);
      BP_UNROLL for (uint32_t t = 0; t < N; ++t) {
        lanes.sums[r][t].v = _mm512_dpbf16_ps(lanes.sums[r][t].v, ws, xs[t]);
      }
    }
  }
}

template <uint32_t R, uint32_t N>
inline void store_sums(const Lanes<R, N>& lanes, float* y, size_t y_stride) {
  BP_UNROLL for (uint32_t r = 0; r < R; ++r) {
    BP_UNROLL for (uint32_t t = 0; t < N; ++t) y[t * y_stride + r] = reduce_add(lanes.sums[r][t]);
  }
}

template <uint32_t R, uint32_t N>
inline void dot_tile(const Bf16Weights& w, uint32_t w_row, const uint16_t* x, uint32_t n_columns,
                     float* y, size_t y_stride) {
  Lanes<R, N> lanes;
  clear(lanes);
  add_columns<true>(w, w_row, x, n_columns, 0, n_columns, lanes);
  store_sums(lanes, y + w_row, y_stride);
}

template <uint32_t N>
inline void dot_rows(const Bf16Weights& w, uint32_t n_w_rows, const uint16_t* x, uint32_t n_columns,
                     float* y, size_t y_stride) {
  uint32_t r = 0;
  if constexpr (N == 1) {
    // Tiles are read once, from end to end.
    if (w.is_tiled() && n_w_rows == kStripRows) {
      return dot_tile<kStripRows, 1>(w, 0, x, n_columns, y, y_stride);
    }
  }
  for (; r + kTileWeights <= n_w_rows; r += kTileWeights) {
    dot_tile<kTileWeights, N>(w, r, x, n_columns, y, y_stride);
  }
  for (; r < n_w_rows; ++r) dot_tile<1, N>(w, r, x, n_columns, y, y_stride);
}

// A whole strip times kBlockRows rows, block by block of columns; tiles wait in memory meanwhile.
void dot_block(const Bf16Weights& w, const uint16_t* x, uint32_t n_columns, float* y,
               size_t y_stride) {
  using Tile = Lanes<kTileWeights, kTileActivations>;
  constexpr uint32_t n_w = kStripRows / kTileWeights, n_x = kBlockRows / kTileActivations;
  Tile tiles[n_w][n_x];
  for (auto& row : tiles) {
    for (Tile& tile : row) clear(tile);
  }
  for (uint32_t column = 0; column < n_columns; column += kBlockColumns) {
    const uint32_t n = n_columns - column < kBlockColumns ? n_columns - column : kBlockColumns;
    for (uint32_t i = 0; i < n_w; ++i) {
      for (uint32_t j = 0; j < n_x; ++j) {
        Tile lanes = tiles[i][j];
        add_columns<false>(w, i * kTileWeights,
                           x + size_t{j} * kTileActivations * n_columns + column, n_columns, column,
                           n, lanes);
        tiles[i][j] = lanes;
      }
    }
  }
  for (uint32_t i = 0; i < n_w; ++i) {
    for (uint32_t j = 0; j < n_x; ++j) {
      store_sums(tiles[i][j], y + j * kTileActivations * y_stride + i * kTileWeights, y_stride);
    }
  }
}

void dot(const Bf16Weights& w, uint32_t n_w_rows, const uint16_t* panels, uint32_t n_x_rows,
         uint32_t n_columns, float* y, size_t y_stride) {
  uint32_t t = 0;
  const auto x = [&] { return panels + size_t{t} * n_columns; };
  for (; n_w_rows == kStripRows && t + kBlockRows <= n_x_rows; t += kBlockRows) {
    dot_block(w, x(), n_columns, y + t * y_stride, y_stride);
  }
  for (; t + kTileActivations <= n_x_rows; t += kTileActivations) {
    dot_rows<kTileActivations>(w, n_w_rows, x(), n_columns, y + t * y_stride, y_stride);
  }
  for (; t < n_x_rows; ++t) {
    dot_rows<1>(w, n_w_rows, x(), n_columns, y + t * y_stride, y_stride);
  }
}

}  // namespace

void set_bf16_kernels(Kernels& kernels) {
  kernels.bf16_pack = pack;
  kernels.bf16_dot = dot;
}

}  // namespace bp::cpu::avx512_bf16
