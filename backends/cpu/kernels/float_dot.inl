// Dot products of float32, float16 and bfloat16 weights with float32 activations, and rounding to
// those types.

#include "backends/cpu/kernels/float_types.inl"
#include "backends/cpu/kernels/kernel_table.hpp"
#include "backends/cpu/kernels/unroll.hpp"
#include "backends/cpu/kernels/with_rows.hpp"

namespace bp::cpu::BP_CPU_ISA {
namespace {

// Columns that a block takes at once: its rows of activations and a strip of weights of so many
// columns stay in the first-level cache. A multiple of 16.
constexpr uint32_t kBlockColumns = 512;
constexpr uint32_t kBlockRows = 12;
// One row of activations waits for memory alone, and that is read fastest in one stream: row by
// row, so far ahead. (Measured.)
constexpr ptrdiff_t kStreamAhead = 8192;

// Lanes of R weight rows times N activation rows, which columns are added to in ascending order.
template <uint32_t R, uint32_t N>
struct Lanes {
  F32x16 sums[R][N];
};

// What a tile asks the second-level cache for while it adds columns [column, column + 16) of row r
// of R, which begin at `own`.
struct AskNothing {
  template <class Type, uint32_t R>
  void ask(const uint8_t*, uint32_t, uint32_t) const {}
};
// What is so far behind.
struct AskAhead {
  ptrdiff_t n_bytes;
  template <class Type, uint32_t R>
  __attribute__((always_inline)) void ask(const uint8_t* own, uint32_t, uint32_t column) const {
    if (column % (64 / Type::kBytes) == 0) __builtin_prefetch(own + n_bytes, 0, 2);
  }
};
// The next R rows, in the order in which they lie.
struct AskRows {
  const uint8_t* next;
  template <class Type, uint32_t R>
  __attribute__((always_inline)) void ask(const uint8_t*, uint32_t r, uint32_t column) const {
    const uint32_t n_before = 16 * r * Type::kBytes;
    if (n_before % 64 == 0) {
      __builtin_prefetch(next + size_t{column} * R * Type::kBytes + n_before, 0, 2);
    }
  }
};

// Adds 16 columns, part after part of the lanes.
template <class Type, uint32_t P, uint32_t R, uint32_t N>
__attribute__((always_inline)) inline void add_parts(const typename Type::Element* const (&w)[R],
                                                     const float* const (&x)[N],
                                                     Lanes<R, N>& lanes) {
  if constexpr (P < kLaneParts) {
    decltype(part<P>(zero())) ws[R];
    BP_UNROLL for (uint32_t r = 0; r < R; ++r) {
      const typename Type::Element* own = w[r];
      if constexpr (P > 0) asm("" : "+r"(own));  // else gcc widens both parts at once
      ws[r] = part<P>(Type::load(own));
    }
    BP_UNROLL for (uint32_t t = 0; t < N; ++t) {
      const auto xs = shared_part<P>(load(x[t]));
      BP_UNROLL for (uint32_t r = 0; r < R; ++r) add_product<P>(lanes.sums[r][t], ws[r], xs);
    }
    add_parts<Type, P + 1>(w, x, lanes);
  }
}

template <class Type, class Ask, uint32_t R, uint32_t N>
inline void add_columns(const uint8_t* w, size_t w_stride_bytes, Ask ask, const float* x,
                        size_t x_stride, uint32_t n_columns, Lanes<R, N>& lanes) {
  const auto row_at = [&](uint32_t r, uint32_t column) {
    const auto* own = Type::at(w + r * w_stride_bytes) + column;
    ask.template ask<Type, R>(reinterpret_cast<const uint8_t*>(own), r, column);
    return own;
  };
  uint32_t column = 0;
  for (; column + 16 <= n_columns; column += 16) {
    const typename Type::Element* ws[R];
    const float* xs[N];
    BP_UNROLL for (uint32_t r = 0; r < R; ++r) ws[r] = row_at(r, column);
    BP_UNROLL for (uint32_t t = 0; t < N; ++t) xs[t] = x + t * x_stride + column;
    add_parts<Type, 0>(ws, xs, lanes);
  }
  if (const uint32_t rest = n_columns - column; rest > 0) {
    const typename Type::Element* ws[R];
    const float* xs[N];
    typename Type::Element last_ws[R][16] = {};
    float last_xs[N][16] = {};
    BP_UNROLL for (uint32_t r = 0; r < R; ++r) {
      __builtin_memcpy(last_ws[r], row_at(r, column), rest * Type::kBytes);
      ws[r] = last_ws[r];
    }
    BP_UNROLL for (uint32_t t = 0; t < N; ++t) {
      __builtin_memcpy(last_xs[t], x + t * x_stride + column, rest * sizeof(float));
      xs[t] = last_xs[t];
    }
    add_parts<Type, 0>(ws, xs, lanes);
  }
}

template <uint32_t R, uint32_t N>
inline void store_sums(const Lanes<R, N>& lanes, float* y, size_t y_stride) {
  for_sums<R, N>(
      [&](uint32_t r, uint32_t t) { y[t * y_stride + r] = reduce_add(lanes.sums[r][t]); });
}

// All columns at once.
template <class Type, uint32_t R, uint32_t N>
inline void dot_tile(const uint8_t* w, size_t w_stride_bytes, const float* x, size_t x_stride,
                     uint32_t n_columns, float* y, size_t y_stride) {
  Lanes<R, N> lanes;
  for_sums<R, N>([&](uint32_t r, uint32_t t) { lanes.sums[r][t] = zero(); });
  if constexpr (R == 1) {
    add_columns<Type>(w, w_stride_bytes, AskAhead{kStreamAhead}, x, x_stride, n_columns, lanes);
  } else {
    add_columns<Type>(w, w_stride_bytes, AskRows{w + R * w_stride_bytes}, x, x_stride, n_columns,
                      lanes);
  }
  store_sums(lanes, y, y_stride);
}

template <class Type, uint32_t N>
inline void dot_rows(const uint8_t* w, size_t w_stride_bytes, uint32_t n_w_rows, const float* x,
                     size_t x_stride, uint32_t n_columns, float* y, size_t y_stride) {
  constexpr uint32_t R = N == 1 ? 1 : kFloatRows;
  uint32_t r = 0;
  for (; r + R <= n_w_rows; r += R) {
    dot_tile<Type, R, N>(w + r * w_stride_bytes, w_stride_bytes, x, x_stride, n_columns, y + r,
                         y_stride);
  }
  for (; r < n_w_rows; ++r) {
    dot_tile<Type, 1, N>(w + r * w_stride_bytes, w_stride_bytes, x, x_stride, n_columns, y + r,
                         y_stride);
  }
}

// Calls f(first row, Rows<n>) for tiles of about one size of n_rows, of Most rows at most.
template <uint32_t Most, class F>
inline void for_tiles(uint32_t n_rows, F&& f) {
  uint32_t n_tiles = (n_rows + Most - 1) / Most;
  for (uint32_t first = 0, n; n_tiles > 0; --n_tiles, first += n) {
    n = (n_rows - first + n_tiles - 1) / n_tiles;
    with_rows<Most>(n, [&](auto rows) { f(first, rows); });
  }
}

// A whole strip times n_rows <= kBlockRows activation rows, block by block of columns. The lanes of
// a tile wait in memory between its blocks, so that sums are those of dot_tile. is_first: no rows
// have met the strip, which comes from memory.
template <class Type>
void dot_block(const uint8_t* w, size_t w_stride_bytes, bool is_first, const float* x,
               size_t x_stride, uint32_t n_rows, uint32_t n_columns, float* y, size_t y_stride) {
  constexpr uint32_t R = kFloatRows, kMost = kFloatColumns;
  F32x16 waiting[kStripRows][kBlockRows];
  for (uint32_t column = 0; column < n_columns; column += kBlockColumns) {
    const uint32_t left = n_columns - column, n = left < kBlockColumns ? left : kBlockColumns;
    // The next block, or the first one of the next strip.
    const auto ahead = static_cast<ptrdiff_t>(
        left > n ? n * Type::kBytes : kStripRows * w_stride_bytes - column * Type::kBytes);
    for (uint32_t i = 0; i < kStripRows; i += R) {
      const uint8_t* own_w = w + i * w_stride_bytes + column * Type::kBytes;
      for_tiles<kMost>(n_rows, [&](uint32_t first, auto rows) {
        constexpr uint32_t N = decltype(rows)::kRows;
        const float* own_x = x + first * x_stride + column;
        Lanes<R, N> lanes;
        for_sums<R, N>([&](uint32_t r, uint32_t t) {
          lanes.sums[r][t] = column == 0 ? zero() : waiting[i + r][first + t];
        });
        if (is_first && first == 0) {
          add_columns<Type>(own_w, w_stride_bytes, AskAhead{ahead}, own_x, x_stride, n, lanes);
        } else {
          add_columns<Type>(own_w, w_stride_bytes, AskNothing(), own_x, x_stride, n, lanes);
        }
        if (left == n) return store_sums(lanes, y + first * y_stride + i, y_stride);
        for_sums<R, N>(
            [&](uint32_t r, uint32_t t) { waiting[i + r][first + t] = lanes.sums[r][t]; });
      });
    }
  }
}

template <class Type>
void float_dot(const void* weights, size_t w_stride_bytes, uint32_t n_w_rows, const float* x,
               size_t x_stride, uint32_t n_x_rows, uint32_t n_columns, float* y, size_t y_stride) {
  const auto* w = static_cast<const uint8_t*>(weights);
  if (n_x_rows <= kFloatColumns || n_w_rows < kStripRows) {
    return for_tiles<kFloatColumns>(n_x_rows, [&](uint32_t first, auto rows) {
      dot_rows<Type, decltype(rows)::kRows>(w, w_stride_bytes, n_w_rows, x + first * x_stride,
                                            x_stride, n_columns, y + first * y_stride, y_stride);
    });
  }
  for (uint32_t t = 0; t < n_x_rows; t += kBlockRows) {
    const uint32_t n = n_x_rows - t < kBlockRows ? n_x_rows - t : kBlockRows;
    dot_block<Type>(w, w_stride_bytes, t == 0, x + t * x_stride, x_stride, n, n_columns,
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
