// Products of bf16 weights with activations rounded to bf16: a pair of columns of 16 rows of
// weights is a vector, which the same pair of a row of activations multiplies, so that nothing is
// summed across lanes. A row's product has two sums, of even pairs of columns and of odd ones,
// since each waits for its last product. A panel of n rows is
// [columns / kBf16Columns][n][kBf16Columns], of bf16 or of floats as the products take them.

#include "backends/cpu/kernels/simd_avx512.hpp"
// clang-format keeps what defines the lanes first.
#include "backends/cpu/kernels/avx512_bf16/ask_strip.hpp"
#include "backends/cpu/kernels/avx512_bf16/dot_groups.hpp"
#include "backends/cpu/kernels/avx512_bf16/dot_split.hpp"
#include "backends/cpu/kernels/avx512_bf16/file_rows.hpp"
#include "backends/cpu/kernels/avx512_bf16/panel_tiles.hpp"
#include "backends/cpu/kernels/avx512_bf16/products.hpp"
#include "backends/cpu/kernels/kernel_table.hpp"
#include "backends/cpu/kernels/with_rows.hpp"

namespace bp::cpu::avx512_bf16 {
namespace {

template <class A>
void pack(const float* x, uint32_t n_columns, void* panel, uint32_t n, uint32_t t) {
  auto* to = static_cast<typename A::X*>(panel) + t * kBf16Columns;
  for (uint32_t c = 0; c < n_columns; c += kBf16Columns, to += size_t{n} * kBf16Columns) {
    A::store(to, load(x + c));
    A::store(to + 16, load(x + c + 16));
  }
}

// One strip, n_rows rows of which there are: memory is read in one stream.
template <Tuning T, class A>
void dot_few_rows(const Bf16Weights& w, uint32_t strip, uint32_t n_rows, PanelRows<typename A::X> x,
                  uint32_t n_columns, float* y, size_t y_stride) {
  with_rows<kStreamedRows>(x.n_panel, [&](auto rows) {
    constexpr uint32_t N = decltype(rows)::kRows;
    if (w.layout == Bf16Layout::kSplit) {
      return dot_split<A, N>(w.strip(strip), x, n_columns, AskAhead<N, T>(), y, y_stride);
    }
    dot_file_rows<A, N>({w.strip(strip), w.row_stride, n_rows}, w.strip(strip + 1), x, n_columns, y,
                        y_stride);
  });
}

template <Tuning T>
void dot(const Bf16Weights& w, uint32_t n_w_rows, const void* panels, uint32_t n_x_rows,
         uint32_t n_columns, float* y, size_t y_stride, void* scratch) {
  using A = Arithmetic<T>;
  const auto* const x = static_cast<const typename A::X*>(panels);
  auto* const kept = static_cast<typename A::X*>(scratch);
  // Zen's processors make pairs beside products, Intel's beside few products alone.
  constexpr uint32_t kMostAtOnce = T == Tuning::kIntel ? 24 : UINT32_MAX;
  if (n_x_rows <= kStreamedRows) {
    for (uint32_t i = 0; i * kStripRows < n_w_rows; ++i) {
      dot_few_rows<T, A>(w, i, n_w_rows - i * kStripRows, {x, n_x_rows}, n_columns,
                         y + i * kStripRows, y_stride);
    }
  } else if (n_x_rows <= kMostAtOnce && w.layout == Bf16Layout::kSplit) {
    constexpr auto dot_rows = T == Tuning::kZen5 ? dot_split_panels<A> : dot_split_rows<A>;
    for (uint32_t i = 0; i * kStripRows < n_w_rows; ++i) {
      dot_rows(w.strip(i), x, n_x_rows, n_columns, y + i * kStripRows, y_stride);
    }
  } else if (n_w_rows > kStripRows) {
    dot_groups<A, 2>(w, n_w_rows, x, n_x_rows, n_columns, y, y_stride, kept);
  } else {
    dot_groups<A, 1>(w, n_w_rows, x, n_x_rows, n_columns, y, y_stride, kept);
  }
}

template <Tuning T>
void set(Kernels& kernels) {
  kernels.bf16_pack = pack<Arithmetic<T>>;
  kernels.bf16_dot = dot<T>;
  kernels.bf16_bytes = sizeof(typename Arithmetic<T>::X);
  kernels.bf16_panel_rows = Arithmetic<T>::kPanelRows;
}

}  // namespace

void set_bf16_kernels(Kernels& kernels, Tuning tuning) {
  switch (tuning) {
    case Tuning::kZen5:
      set<Tuning::kZen5>(kernels);
      break;
    case Tuning::kIntel:
      set<Tuning::kIntel>(kernels);
      break;
    case Tuning::kZen4:
      set<Tuning::kZen4>(kernels);
      break;
  }
  kernels.bf16_layout = Bf16Layout::kSplit;
}

}  // namespace bp::cpu::avx512_bf16
