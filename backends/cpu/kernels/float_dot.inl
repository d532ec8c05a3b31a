// Dot products of float32, float16 and bfloat16 weights with float32 activations, and rounding to
// those types.

#include "backends/cpu/kernels/float_types.inl"
#include "backends/cpu/kernels/kernel_table.hpp"
#include "backends/cpu/kernels/unroll.hpp"

namespace bp::cpu::BP_CPU_ISA {
namespace {

// R weight rows times N activation rows.
template <class Type, uint32_t R, uint32_t N>
inline void dot_tile(const uint8_t* w, size_t w_stride_bytes, const float* x, size_t x_stride,
                     uint32_t n_columns, float* y, size_t y_stride) {
  F32x16 sums[R][N];
  BP_UNROLL for (uint32_t r = 0; r < R; ++r) {
    BP_UNROLL for (uint32_t t = 0; t < N; ++t) sums[r][t] = zero();
  }
  const auto step = [&](uint32_t column, auto load_w, auto load_x) {
    F32x16 xs[N];
    BP_UNROLL for (uint32_t t = 0; t < N; ++t) xs[t] = load_x(x + t * x_stride + column);
    BP_UNROLL for (uint32_t r = 0; r < R; ++r) {
      const F32x16 ws = load_w(Type::at(w + r * w_stride_bytes) + column);
      BP_UNROLL for (uint32_t t = 0; t < N; ++t) sums[r][t] = fma(ws, xs[t], sums[r][t]);
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
  BP_UNROLL for (uint32_t r = 0; r < R; ++r) {
    BP_UNROLL for (uint32_t t = 0; t < N; ++t) y[t * y_stride + r] = reduce_add(sums[r][t]);
  }
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

template <class Type>
void float_dot(const void* weights, size_t w_stride_bytes, uint32_t n_w_rows, const float* x,
               size_t x_stride, uint32_t n_x_rows, uint32_t n_columns, float* y, size_t y_stride) {
  const auto* w = static_cast<const uint8_t*>(weights);
  uint32_t t = 0;
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
