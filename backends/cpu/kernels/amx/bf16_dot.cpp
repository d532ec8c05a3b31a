// Products of bf16 weights with activations rounded to bf16, in tile registers. A tile of weights
// is 16 rows of 32 columns, as they lie in the file or one after another; a panel of n rows is
// u16[n_columns / 2][n][2], so that the tile of sums is [weight row][activation row].

#include "backends/cpu/kernels/simd_avx512.hpp"
// clang-format keeps what defines the lanes first.
#include "backends/cpu/kernels/amx/tile_config.hpp"
#include "backends/cpu/kernels/kernel_table.hpp"
#include "backends/cpu/kernels/unroll.hpp"

namespace bp::cpu::amx {
namespace {

using namespace avx512;

constexpr uint32_t kPanelRows = 16;
constexpr uint32_t kPanels = 3;  // of a pass over the weights

void pack(const float* x, uint32_t n_columns, void* panel, uint32_t n, uint32_t t) {
  for (uint32_t c = 0; c < n_columns; c += 16) {
    uint32_t pairs[8];
    store_bf16(reinterpret_cast<uint16_t*>(pairs), load(x + c));
    uint16_t* out = static_cast<uint16_t*>(panel) + size_t{c} * n + 2 * t;
    for (uint32_t i = 0; i < 8; ++i) __builtin_memcpy(out + size_t{2} * i * n, &pairs[i], 4);
  }
}

// Tiles 0 to 2 hold sums, 4 weights, 5 to 7 activations of n rows.
void configure_tiles(uint32_t n_w_rows, uint32_t n) {
  TileConfig config;
  for (int tile = 0; tile < 8; ++tile) {
    const bool holds_weights = tile == 4, holds_activations = tile > 4;
    config.row_bytes[tile] = holds_weights ? 64 : static_cast<uint16_t>(4 * n);
    config.n_rows[tile] = holds_activations ? 16 : static_cast<uint8_t>(n_w_rows);
  }
  load_config(config);
}

struct alignas(64) Sums {
  float of[kStripRows][kPanelRows];
};

void store_transposed(const Sums& sums, uint32_t n_w_rows, uint32_t n, float* y, size_t y_stride) {
  for (uint32_t t = 0; t < n; ++t) {
    for (uint32_t r = 0; r < n_w_rows; ++r) y[t * y_stride + r] = sums.of[r][t];
  }
}

// Few rows wait for memory: what is this far ahead is asked for into the second-level cache. Each
// row of a file is a stream of its own, which goes on in the next strip where the row ends.
constexpr uint32_t kPrefetchColumns = 256;
constexpr uint32_t kPrefetchTileColumns = 96;

// A strip of weights: tiles of 16 rows of kBf16Columns columns, or n_rows rows of a file.
struct Strip {
  const uint16_t* first;
  uint32_t n_rows;
  bool is_tiled;
  size_t row_stride;  // in elements

  static Strip of(const Bf16Weights& w, uint32_t i, uint32_t n_rows) {
    const bool is_tiled = w.layout == Bf16Layout::kTiles;
    return {w.strip(i), n_rows, is_tiled, is_tiled ? kBf16Columns : w.row_stride};
  }
  const uint16_t* at(uint32_t column) const {
    return first + size_t{column} * (is_tiled ? kStripRows : 1);
  }
  size_t row_stride_bytes() const { return row_stride * sizeof(uint16_t); }
};

// Inlined by force: a function that only prefetches is one that gcc drops.
__attribute__((always_inline)) inline void prefetch_ahead(const Strip& w, uint32_t column,
                                                          uint32_t n_columns) {
  const uint32_t ahead = column + (w.is_tiled ? kPrefetchTileColumns : kPrefetchColumns);
  const bool goes_on = !w.is_tiled && ahead >= n_columns;
  const uint16_t* from =
      goes_on ? w.at(ahead - n_columns) + kStripRows * w.row_stride : w.at(ahead);
  BP_UNROLL for (uint32_t r = 0; r < kStripRows; ++r) {
    __builtin_prefetch(from + r * w.row_stride, 0, 2);
  }
}

// One panel of n rows.
void dot_panel(const Strip& w, const uint16_t* panel, uint32_t n, uint32_t n_columns, float* y,
               size_t y_stride) {
  Sums sums;
  _tile_zero(0);
  for (uint32_t c = 0; c < n_columns; c += kBf16Columns) {
    prefetch_ahead(w, c, n_columns);
    _tile_loadd(4, w.at(c), w.row_stride_bytes());
    _tile_loadd(5, panel + size_t{c} * n, 4 * n);
    _tile_dpbf16ps(0, 4, 5);
  }
  _tile_stored(0, sums.of, sizeof(float) * kPanelRows);
  store_transposed(sums, w.n_rows, n, y, y_stride);
}

// kPanels whole panels.
void dot_panels(const Strip& w, const uint16_t* panels, uint32_t n_columns, float* y,
                size_t y_stride) {
  constexpr uint32_t n = kPanelRows;
  const size_t panel = size_t{n} * n_columns;
  Sums sums[kPanels];
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  for (uint32_t c = 0; c < n_columns; c += kBf16Columns) {
    const uint16_t* x = panels + size_t{c} * n;
    _tile_loadd(4, w.at(c), w.row_stride_bytes());
    _tile_loadd(5, x, 64);
    _tile_loadd(6, x + panel, 64);
    _tile_loadd(7, x + 2 * panel, 64);
    _tile_dpbf16ps(0, 4, 5);
    _tile_dpbf16ps(1, 4, 6);
    _tile_dpbf16ps(2, 4, 7);
  }
  _tile_stored(0, sums[0].of, 64);
  _tile_stored(1, sums[1].of, 64);
  _tile_stored(2, sums[2].of, 64);
  for (uint32_t p = 0; p < kPanels; ++p) {
    store_transposed(sums[p], w.n_rows, n, y + p * n * y_stride, y_stride);
  }
}

void dot_strip(const Strip& w, const uint16_t* panels, uint32_t n_x_rows, uint32_t n_columns,
               float* y, size_t y_stride) {
  const auto x = [&](uint32_t t) { return panels + size_t{t} * n_columns; };
  uint32_t t = 0;
  if (n_x_rows >= kPanelRows) configure_tiles(w.n_rows, kPanelRows);
  for (; t + kPanels * kPanelRows <= n_x_rows; t += kPanels * kPanelRows) {
    dot_panels(w, x(t), n_columns, y + t * y_stride, y_stride);
  }
  for (; t + kPanelRows <= n_x_rows; t += kPanelRows) {
    dot_panel(w, x(t), kPanelRows, n_columns, y + t * y_stride, y_stride);
  }
  if (t < n_x_rows) {
    configure_tiles(w.n_rows, n_x_rows - t);
    dot_panel(w, x(t), n_x_rows - t, n_columns, y + t * y_stride, y_stride);
  }
}

void dot(const Bf16Weights& w, uint32_t n_w_rows, const void* panels, uint32_t n_x_rows,
         uint32_t n_columns, float* y, size_t y_stride, void*) {
  const auto* const x = static_cast<const uint16_t*>(panels);
  __asm__ volatile("" ::: "memory");  // gcc's tile loads do not say that they read memory
  for (uint32_t i = 0; i * kStripRows < n_w_rows; ++i) {
    const uint32_t left = n_w_rows - i * kStripRows;
    dot_strip(Strip::of(w, i, left < kStripRows ? left : kStripRows), x, n_x_rows, n_columns,
              y + i * kStripRows, y_stride);
  }
  _tile_release();
}

}  // namespace

void set_bf16_kernels(Kernels& kernels) {
  kernels.bf16_pack = pack;
  kernels.bf16_dot = dot;
  kernels.bf16_bytes = sizeof(uint16_t);
  kernels.bf16_panel_rows = kPanelRows;
  kernels.bf16_layout = Bf16Layout::kTiles;
}

}  // namespace bp::cpu::amx
