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

// w and x at the first column; strides in elements.
// Asks for the same columns of the rows that come next (Ahead), since few rows wait for memory.
template <bool Ahead, uint32_t R, uint32_t N>
inline void add_columns(const uint16_t* w, size_t w_stride, const uint16_t* x, size_t x_stride,
                        uint32_t n_columns, Lanes<R, N>& lanes) {
  for (uint32_t c = 0; c < n_columns; c += kBf16Columns) {
    if constexpr (Ahead) {
      BP_UNROLL for (uint32_t r = 0; r < R; ++r) {
        __builtin_prefetch(w + (R + r) * w_stride + c, 0, 2);
      }
    }
    __m512bh xs[N];
    BP_UNROLL for (uint32_t t = 0; t < N; ++t) xs[t] = columns_at(x + t * x_stride + c);
    BP_UNROLL for (uint32_t r = 0; r < R; ++r) {
      const __m512bh ws = columns_at(w + r * w_stride + c);
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

template <uint32_t N>
inline void dot_rows(const uint16_t* w, size_t w_stride, uint32_t n_w_rows, const uint16_t* x,
                     uint32_t n_columns, float* y, size_t y_stride) {
  uint32_t r = 0;
  for (; r + kTileWeights <= n_w_rows; r += kTileWeights) {
    Lanes<kTileWeights, N> lanes;
    clear(lanes);
    add_columns<true>(w + r * w_stride, w_stride, x, n_columns, n_columns, lanes);
    store_sums(lanes, y + r, y_stride);
  }
  for (; r < n_w_rows; ++r) {
    Lanes<1, N> lanes;
    clear(lanes);
    add_columns<true>(w + r * w_stride, w_stride, x, n_columns, n_columns, lanes);
    store_sums(lanes, y + r, y_stride);
  }
}

// A whole strip times kBlockRows rows, block by block of columns; tiles wait in memory meanwhile.
void dot_block(const uint16_t* w, size_t w_stride, const uint16_t* x, uint32_t n_columns, float* y,
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
        add_columns<false>(w + i * kTileWeights * w_stride + column, w_stride,
                           x + size_t{j} * kTileActivations * n_columns + column, n_columns, n,
                           lanes);
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

void dot(const uint16_t* w, size_t w_stride_bytes, uint32_t n_w_rows, const uint16_t* panels,
         uint32_t n_x_rows, uint32_t n_columns, float* y, size_t y_stride) {
  const size_t w_stride = w_stride_bytes / sizeof(uint16_t);
  uint32_t t = 0;
  const auto x = [&] { return panels + size_t{t} * n_columns; };
  for (; n_w_rows == kStripRows && t + kBlockRows <= n_x_rows; t += kBlockRows) {
    dot_block(w, w_stride, x(), n_columns, y + t * y_stride, y_stride);
  }
  for (; t + kTileActivations <= n_x_rows; t += kTileActivations) {
    dot_rows<kTileActivations>(w, w_stride, n_w_rows, x(), n_columns, y + t * y_stride, y_stride);
  }
  for (; t < n_x_rows; ++t) {
    dot_rows<1>(w, w_stride, n_w_rows, x(), n_columns, y + t * y_stride, y_stride);
  }
}

}  // namespace

void set_bf16_kernels(Kernels& kernels) {
  kernels.bf16_pack = pack;
  kernels.bf16_dot = dot;
}

}  // namespace bp::cpu::avx512_bf16
