// Dot products of float32, float16 and bfloat16 weights with float32 activations, and rounding to
// those types.

#include "backends/cpu/kernels/float_types.inl"
#include "backends/cpu/kernels/kernel_table.hpp"
#include "backends/cpu/kernels/unroll.hpp"

namespace bp::cpu::BP_CPU_ISA {
namespace {

// Columns that a tile takes at once: kBlockRows rows of activations and a strip of weights of so
// many columns stay in the first-level cache. A multiple of 16.
constexpr uint32_t kBlockColumns = 256;
constexpr uint32_t kBlockRows = 12;

// Lanes of R weight rows times N activation rows, which columns are added to in ascending order.
template <uint32_t R, uint32_t N>
struct Lanes {
  F32x16 sums[R][N];
};

// Asks for the same columns of the rows that come next (Ahead), since few rows wait for memory.
template <class Type, bool Ahead, uint32_t R, uint32_t N>
inline void add_columns(const uint8_t* w, size_t w_stride_bytes, const float* x, size_t x_stride,
                        uint32_t n_columns, Lanes<R, N>& lanes) {
  const auto step = [&](uint32_t column, auto load_w, auto load_x) {
    F32x16 xs[N];
    BP_UNROLL for (uint32_t t = 0; t < N; ++t) xs[t] = load_x(x + t * x_stride + column);
    BP_UNROLL for (uint32_t r = 0; r < R; ++r) {
      if constexpr (Ahead) {
        __builtin_prefetch(Type::at(w + (R + r) * w_stride_bytes) + column, 0, 2);
      }
      const F32x16 ws = load_w(Type::at(w + r * w_stride_bytes) + column);
      BP_UNROLL for (uint32_t t = 0; t < N; ++t) lanes.sums[r][t] =
          fma(ws, xs[t], lanes.sums[r][t]);
    }
  };
  uint32_t column = 0;
  for (; column + 16 <= n_columns; column += 16) {
    step(
        column, [](const auto* p) { return Type::load(p); },
        [](const float* p) { return load(p); });
  }
  if (const uint32_t rest = n_columns - column; rest > 0) {
    step(
        column, [=](const auto* p) { return Type::load_first(p, rest); },
        [=](const float* p) { return load_first(p, rest); });
  }
}

template <uint32_t R, uint32_t N>
inline void clear(Lanes<R, N>& lanes) {
  BP_UNROLL for (uint32_t r = 0; r < R; ++r) {
    BP_UNROLL for (uint32_t t = 0; t < N; ++t) lanes.sums[r][t] = zero();
  }
}

template <uint32_t R, uint32_t N>
inline void store_sums(const Lanes<R, N>& lanes, float* y, size_t y_stride) {
  BP_UNROLL for (uint32_t r = 0; r < R; ++r) {
    BP_UNROLL for (uint32_t t = 0; t < N; ++t) y[t * y_stride + r] = reduce_add(lanes.sums[r][t]);
  }
}

// All columns at once.
template <class Type, uint32_t R, uint32_t N>
inline void dot_tile(const uint8_t* w, size_t w_stride_bytes, const float* x, size_t x_stride,
                     uint32_t n_columns, float* y, size_t y_stride) {
  Lanes<R, N> lanes;
  clear(lanes);
  add_columns<Type, true>(w, w_stride_bytes, x, x_stride, n_columns, lanes);
  store_sums(lanes, y, y_stride);
}

template <class Type, uint32_t N>
inline void dot_rows(const uint8_t* w, size_t w_stride_bytes, uint32_t n_w_rows, const float* x,
                     size_t x_stride, uint32_t n_columns, float* y, size_t y_stride) {
  uint32_t r = 0;
  for (; r + kFloatRows <= n_w_rows; r += kFloatRows) {
    dot_tile<Type, kFloatRows, N>(w + r * w_stride_bytes, w_stride_bytes, x, x_stride, n_columns,
                                  y + r, y_stride);
  }
  for (; r < n_w_rows; ++r) {
    dot_tile<Type, 1, N>(w + r * w_stride_bytes, w_stride_bytes, x, x_stride, n_columns, y + r,
                         y_stride);
  }
}

// A whole strip times kBlockRows activation rows, block by block of columns. The lanes of a tile
// wait in memory between its blocks, so that sums are those of dot_tile.
template <class Type>
void dot_block(const uint8_t* w, size_t w_stride_bytes, const float* x, size_t x_stride,
               uint32_t n_columns, float* y, size_t y_stride) {
  using Tile = Lanes<kFloatRows, kFloatColumns>;
  Tile tiles[kStripRows / kFloatRows][kBlockRows / kFloatColumns];
  for (auto& row : tiles) {
    for (Tile& tile : row) clear(tile);
  }
  for (uint32_t column = 0; column < n_columns; column += kBlockColumns) {
    const uint32_t n = n_columns - column < kBlockColumns ? n_columns - column : kBlockColumns;
    for (uint32_t i = 0; i < kStripRows / kFloatRows; ++i) {
      const uint8_t* own_w = w + i * kFloatRows * w_stride_bytes + column * Type::kBytes;
      for (uint32_t j = 0; j < kBlockRows / kFloatColumns; ++j) {
        Tile lanes = tiles[i][j];
        add_columns<Type, false>(own_w, w_stride_bytes, x + j * kFloatColumns * x_stride + column,
                          x_stride, n, lanes);
        tiles[i][j] = lanes;
      }
    }
  }
  for (uint32_t i = 0; i < kStripRows / kFloatRows; ++i) {
    for (uint32_t j = 0; j < kBlockRows / kFloatColumns; ++j) {
      store_sums(tiles[i][j], y + j * kFloatColumns * y_stride + i * kFloatRows, y_stride);
    }
  }
}

template <class Type>
void float_dot(const void* weights, size_t w_stride_bytes, uint32_t n_w_rows, const float* x,
               size_t x_stride, uint32_t n_x_rows, uint32_t n_columns, float* y, size_t y_stride) {
  const auto* w = static_cast<const uint8_t*>(weights);
  uint32_t t = 0;
  for (; n_w_rows == kStripRows && t + kBlockRows <= n_x_rows; t += kBlockRows) {
    dot_block<Type>(w, w_stride_bytes, x + t * x_stride, x_stride, n_columns, y + t * y_stride,
                    y_stride);
  }
  for (; t + kFloatColumns <= n_x_rows; t += kFloatColumns) {
    dot_rows<Type, kFloatColumns>(w, w_stride_bytes, n_w_rows, x + t * x_stride, x_stride,
                                  n_columns, y + t * y_stride, y_stride);
  }
  for (; t < n_x_rows; ++t) {
    dot_rows<Type, 1>(w, w_stride_bytes, n_w_rows, x + t * x_stride, x_stride, n_columns,
                      y + t * y_stride, y_stride);
  }
}

template <class Type>
void from_f32(const float* x, void* out, size_t n) {
  auto* y = static_cast<typename Type::Element*>(out);
  size_t i = 0;
  for (; i + 16 <= n; i += 16) Type::store(y + i, load(x + i));
  if (i < n) {
    typename Type::Element rest[16];
    Type::store(rest, load_first(x + i, n - i));
    __builtin_memcpy(y + i, rest, (n - i) * sizeof(typename Type::Element));
  }
}

}  // namespace

void set_float_kernels(Kernels& kernels) {
  kernels.float_dot[static_cast<int>(FloatType::kF32)] = float_dot<F32>;
  kernels.float_dot[static_cast<int>(FloatType::kF16)] = float_dot<F16>;
  kernels.float_dot[static_cast<int>(FloatType::kBF16)] = float_dot<BF16>;
  kernels.from_f32[static_cast<int>(FloatType::kF32)] = from_f32<F32>;
  kernels.from_f32[static_cast<int>(FloatType::kF16)] = from_f32<F16>;
  kernels.from_f32[static_cast<int>(FloatType::kBF16)] = from_f32<BF16>;
}

}  // namespace bp::cpu::BP_CPU_ISA
