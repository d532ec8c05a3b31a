// Dot products of one strip of quantised weights with a panel of quantised activations.

#include "backends/cpu/kernels/kernel_table.hpp"
#include "backends/cpu/kernels/strip_formats.inl"
#include "backends/cpu/kernels/unroll.hpp"

namespace bp::cpu::BP_CPU_ISA {
namespace {

// The words of one panel record.
template <uint32_t N>
struct PanelRecord {
  const int32_t* words;
  [[nodiscard]] const int32_t& quants(uint32_t k, uint32_t t) const { return words[k * N + t]; }
  [[nodiscard]] F32x16 scale(uint32_t t) const {
    return broadcast(reinterpret_cast<const float*>(words)[8 * N + t]);
  }
  [[nodiscard]] F32x16 sum(uint32_t t) const {
    return broadcast(reinterpret_cast<const float*>(words)[9 * N + t]);
  }
  [[nodiscard]] I32x16 sum8(uint32_t t) const { return broadcast_int(words[10 * N + t]); }
  [[nodiscard]] I32x16 half8(uint32_t t) const { return broadcast_int(words[11 * N + t]); }
};

// Pairs of products that a sum of 16 bits has room for.
template <class W>
constexpr int kPairSums = 32767 / (2 * 127 * W::kLargest);

template <class W, uint32_t N, int First, int End, class Pairs>
__attribute__((always_inline)) inline void add_columns_in_pairs(const uint8_t* body,
                                                                PanelRecord<N> x, Pairs* pairs) {
  if constexpr (First < End) {
    const auto w = W::template quants<First>(body);
    BP_UNROLL for (uint32_t t = 0; t < N; ++t) {
      pairs[t] = add_multiplied_pairs<N>(pairs[t], w, x.quants(First, t));
    }
    add_columns_in_pairs<W, N, First + 1, End>(body, x, pairs);
  }
}

// Adds columns [4 * First, 4 * End) of a block. Where products are summed in pairs first, these
// take as many columns as 16 bits have room for.
template <class W, uint32_t N, int First, int End>
__attribute__((always_inline)) inline void sum_columns(const uint8_t* body, PanelRecord<N> x,
                                                       I32x16* sums) {
  if constexpr (First < End) {
    const auto w = W::template quants<First>(body);
    constexpr bool kInPairs = kSumsPairs && (kPairSums<W>) >= 2;
    if constexpr (kInPairs) {
      constexpr int kNext = First + kPairSums<W> < End ? First + kPairSums<W> : End;
      decltype(multiply_pairs(w, 0)) pairs[N];
      BP_UNROLL for (uint32_t t = 0; t < N; ++t) pairs[t] = multiply_pairs(w, x.quants(First, t));
      add_columns_in_pairs<W, N, First + 1, kNext>(body, x, pairs);
      BP_UNROLL for (uint32_t t = 0; t < N; ++t) sums[t] = add_pairs(sums[t], pairs[t]);
      sum_columns<W, N, kNext, End>(body, x, sums);
    } else {
      BP_UNROLL for (uint32_t t = 0; t < N; ++t) {
        sums[t] = W::kSigned ? dot_signed(sums[t], w, x.quants(First, t))
                             : dot(sums[t], w, x.quants(First, t));
      }
      sum_columns<W, N, First + 1, End>(body, x, sums);
    }
  }
}

// -8 * sum of the activations of a half (0 or 1) of the block, or of both (-1).
template <uint32_t N>
inline I32x16 sum8_of(PanelRecord<N> x, int half, uint32_t t) {
  if (half < 0) return x.sum8(t);
  return half == 0 ? x.half8(t) : sub(x.sum8(t), x.half8(t));
}

template <int kOffset>
inline I32x16 times_offset(I32x16 sum8) {
  if constexpr (kOffset >= 8) {
    return shift_left<__builtin_ctz(kOffset / 8)>(sum8);
  } else {
    return shift_right<__builtin_ctz(8 / kOffset)>(sum8);
  }
}

// Starts sums at what the quants' offset adds, so that they end exact.
template <class W, uint32_t N>
inline void start_sums(PanelRecord<N> x, int half, I32x16* sums) {
  BP_UNROLL for (uint32_t t = 0; t < N; ++t) {
    if constexpr (W::kOffset == 0) {
      sums[t] = broadcast_int(0);
    } else {
      sums[t] = times_offset<W::kOffset>(sum8_of(x, half, t));
    }
  }
}

template <class W, uint32_t N>
inline void fold(const uint8_t* record, uint32_t b, PanelRecord<N> x, const I32x16* sums,
                 F32x16* y) {
  const F32x16 scale = W::scale(record, b, 0);
  BP_UNROLL for (uint32_t t = 0; t < N; ++t) {
    y[t] = fma(to_float(sums[t]), mul(scale, x.scale(t)), y[t]);
  }
  if constexpr (W::kHasMinimum && W::kHalfFactors) {
    const F32x16 first = W::minimum(record, b, 0);
    const F32x16 second = W::minimum(record, b, 1);
    BP_UNROLL for (uint32_t t = 0; t < N; ++t) {
      y[t] = fma(first, scaled_sum8(sum8_of(x, 0, t), x.scale(t)), y[t]);
      y[t] = fma(second, scaled_sum8(sum8_of(x, 1, t), x.scale(t)), y[t]);
    }
  } else if constexpr (W::kHasMinimum) {
    const F32x16 minimum = W::minimum(record, b, 0);
    BP_UNROLL for (uint32_t t = 0; t < N; ++t) y[t] = fma(minimum, x.sum(t), y[t]);
  }
}

template <class W, uint32_t N>
inline void dot_block(const uint8_t* record, uint32_t b, PanelRecord<N> x, F32x16* y) {
  const uint8_t* body = W::body(record, b);
  I32x16 sums[N];
  start_sums<W>(x, -1, sums);
  sum_columns<W, N, 0, 8>(body, x, sums);
  fold<W>(record, b, x, sums, y);
}

template <class W, uint32_t N, int Half>
inline void add_half_of_factors(const uint8_t* record, uint32_t b, PanelRecord<N> x,
                                I32x16* totals) {
  I32x16 sums[N];
  start_sums<W>(x, Half, sums);
  sum_columns<W, N, 4 * Half, 4 * Half + 4>(W::body(record, b), x, sums);
  const Factors factors = W::factors(record, b, Half);
  BP_UNROLL for (uint32_t t = 0; t < N; ++t) {
    totals[t] = add_multiple(totals[t], sums[t], factors);
  }
}

// The halves' sums times their factors are added as integers.
template <class W, uint32_t N>
inline void dot_block_of_factors(const uint8_t* record, uint32_t b, PanelRecord<N> x, F32x16* y) {
  I32x16 totals[N];
  BP_UNROLL for (uint32_t t = 0; t < N; ++t) totals[t] = broadcast_int(0);
  add_half_of_factors<W, N, 0>(record, b, x, totals);
  add_half_of_factors<W, N, 1>(record, b, x, totals);
  fold<W>(record, b, x, totals, y);
}

// The halves are added in float before they meet the scale of the activations.
template <class W, uint32_t N>
inline void dot_block_of_halves(const uint8_t* record, uint32_t b, PanelRecord<N> x, F32x16* y) {
  const uint8_t* body = W::body(record, b);
  I32x16 sums[N];
  F32x16 both[N];
  start_sums<W>(x, 0, sums);
  sum_columns<W, N, 0, 4>(body, x, sums);
  const F32x16 first = W::scale(record, b, 0);
  BP_UNROLL for (uint32_t t = 0; t < N; ++t) both[t] = mul(to_float(sums[t]), first);
  start_sums<W>(x, 1, sums);
  sum_columns<W, N, 4, 8>(body, x, sums);
  const F32x16 second = W::scale(record, b, 1);
  BP_UNROLL for (uint32_t t = 0; t < N; ++t) {
    y[t] = fma(fma(to_float(sums[t]), second, both[t]), x.scale(t), y[t]);
  }
}

// Few rows wait for memory, and the hardware's own prefetch stops at each page: what is far ahead
// is asked for into the second-level cache, which waits for more lines at once than the first.
constexpr uint32_t kPrefetchFarBytes = 3072;
constexpr uint32_t kPrefetchNearBytes = 1024;
constexpr uint32_t kPrefetchRows = 4;

template <class W, uint32_t N>
void strip_dot(const uint8_t* strip, uint32_t n_columns, const int32_t* panel, float* out,
               size_t out_stride) {
  const uint32_t n_blocks = n_columns / kPanelColumns;
  const int32_t* second_of = panel + 1;
  const int32_t* record = panel + panel_header_words(n_blocks);
  const int32_t* seconds = record + size_t{n_blocks} * kPanelWords * N;
  F32x16 y[N];
  BP_UNROLL for (uint32_t t = 0; t < N; ++t) y[t] = zero();
  for (uint32_t block = 0; block < n_blocks; strip += W::kRecordBytes) {
    for (uint32_t b = 0; b < W::kBlocks && block < n_blocks; ++b, ++block) {
      if constexpr (N <= kPrefetchRows) {
        prefetch_block<W, 2>(W::body(strip, b), kPrefetchFarBytes);
        prefetch_block<W, 1>(W::body(strip, b), kPrefetchNearBytes);
      }
      const int32_t second = second_of[block];
      for (const int32_t* x = record; x != nullptr;) {
        if constexpr (W::kHalfFactors) {
          dot_block_of_factors<W>(strip, b, PanelRecord<N>{x}, y);
        } else if constexpr (W::kHalves) {
          dot_block_of_halves<W>(strip, b, PanelRecord<N>{x}, y);
        } else {
          dot_block<W>(strip, b, PanelRecord<N>{x}, y);
        }
        x = second >= 0 && x == record ? seconds + static_cast<size_t>(second) * kPanelWords * N
                                       : nullptr;
      }
      record += kPanelWords * N;
    }
  }
  BP_UNROLL for (uint32_t t = 0; t < N; ++t) store(out + t * out_stride, y[t]);
}

template <class W, uint32_t N>
void set_width(StripDot* by_width) {
  if constexpr (N <= kMaxPanel) by_width[N] = strip_dot<W, N>;
}

template <class W>
void set_widths(Kernels& kernels, StripLayout layout) {
  StripDot* by_width = kernels.strip_dot[static_cast<int>(layout)];
  set_width<W, 1>(by_width);
  set_width<W, 2>(by_width);
  set_width<W, 3>(by_width);
  set_width<W, 4>(by_width);
  set_width<W, 6>(by_width);
  set_width<W, 8>(by_width);
  set_width<W, 12>(by_width);
}

}  // namespace

void set_strip_kernels(Kernels& kernels) {
  kernels.max_panel_rows = kMaxPanel;
  for_each_format(
      [&](auto format, StripLayout layout) { set_widths<decltype(format)>(kernels, layout); });
}

}  // namespace bp::cpu::BP_CPU_ISA
