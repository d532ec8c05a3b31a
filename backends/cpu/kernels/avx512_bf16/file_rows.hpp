#pragma once
// Rows of bf16 as they lie in a file.

#include "backends/cpu/kernels/avx512_bf16/beside.hpp"
#include "backends/cpu/kernels/avx512_bf16/panel_tiles.hpp"
#include "backends/cpu/kernels/avx512_bf16/products.hpp"
#include "backends/cpu/kernels/unroll.hpp"

namespace bp::cpu::avx512_bf16 {
namespace {

// 16 vectors of 16 pairs, rows by columns, the other way round.
inline void transpose(__m512i (&v)[16]) {
  __m512i a[16];
  BP_UNROLL for (int i = 0; i < 16; i += 4) {
    const __m512i low0 = _mm512_unpacklo_epi32(v[i], v[i + 1]);
    const __m512i high0 = _mm512_unpackhi_epi32(v[i], v[i + 1]);
    const __m512i low1 = _mm512_unpacklo_epi32(v[i + 2], v[i + 3]);
    const __m512i high1 = _mm512_unpackhi_epi32(v[i + 2], v[i + 3]);
    a[i] = _mm512_unpacklo_epi64(low0, low1);
    a[i + 1] = _mm512_unpackhi_epi64(low0, low1);
    a[i + 2] = _mm512_unpacklo_epi64(high0, high1);
    a[i + 3] = _mm512_unpackhi_epi64(high0, high1);
  }
  // a[4 * i + j]: of rows 4 * i to 4 * i + 3 pairs j, 4 + j, 8 + j and 12 + j.
  BP_UNROLL for (int j = 0; j < 4; ++j) {
    const __m512i low0 = _mm512_shuffle_i32x4(a[j], a[4 + j], 0x88);
    const __m512i low1 = _mm512_shuffle_i32x4(a[8 + j], a[12 + j], 0x88);
    const __m512i high0 = _mm512_shuffle_i32x4(a[j], a[4 + j], 0xdd);
    const __m512i high1 = _mm512_shuffle_i32x4(a[8 + j], a[12 + j], 0xdd);
    v[j] = _mm512_shuffle_i32x4(low0, low1, 0x88);
    v[8 + j] = _mm512_shuffle_i32x4(low0, low1, 0xdd);
    v[4 + j] = _mm512_shuffle_i32x4(high0, high1, 0x88);
    v[12 + j] = _mm512_shuffle_i32x4(high0, high1, 0xdd);
  }
}

// Rows of a file. Beyond the n_rows that there are they are copies of the last one.
struct FileRows {
  const uint16_t* first;
  size_t row_stride;
  uint32_t n_rows;

  // Pairs of the next kBf16Columns columns.
  __attribute__((always_inline)) void next(__m512i (&pairs)[16]) {
    BP_UNROLL for (uint32_t r = 0; r < 16; ++r) {
      pairs[r] = _mm512_loadu_si512(first + (r < n_rows ? r : n_rows - 1) * row_stride);
    }
    transpose(pairs);
    first += kBf16Columns;
  }
};

template <class A>
void pair_rows(FileRows rows, uint32_t n_columns, typename A::X* pairs) {
  for (uint32_t c = 0; c < n_columns; c += kBf16Columns) {
    __m512i v[16];
    rows.next(v);
    BP_UNROLL for (uint32_t i = 0; i < 16; ++i, pairs += kPairElements) {
      A::store_pair(pairs, v[i]);
    }
  }
}

// A strip of rows of a file times N rows. `ahead`: what follows, which is asked for in the order in
// which it lies.
template <class A, uint32_t N>
void dot_file_rows(FileRows w, const uint16_t* ahead, PanelRows<typename A::X> x,
                   uint32_t n_columns, float* y, size_t y_stride) {
  Sums<1, N, 2> sums;
  clear(sums);
  Lines<1, 2> lines{{}, {ahead}, kUnitPairs};
  const typename A::X* own = x.first;
  for (uint32_t c = 0; c < n_columns; c += kBf16Columns, own += size_t{x.n_panel} * kBf16Columns) {
    keep_as_base(own);
    lines.ask();
    __m512i v[16];
    w.next(v);
    BP_UNROLL for (uint32_t i = 0; i < kUnitPairs; ++i) {
      add_pair_at<A>(i, v[i], own, sums);
    }
  }
  store(sums, nullptr, Scales<1>{_mm512_set1_ps(1)}, y, y_stride);
}

}  // namespace
}  // namespace bp::cpu::avx512_bf16
