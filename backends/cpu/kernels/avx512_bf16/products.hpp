#pragma once
// Two ways to multiply pairs of columns of bf16, and the sums of their products.

#include <type_traits>

#include "backends/cpu/kernels/simd_avx512.hpp"
// clang-format keeps what defines the lanes first.
#include "backends/cpu/kernels/avx512_bf16/by_floats.hpp"
#include "backends/cpu/kernels/avx512_bf16/panel_tiles.hpp"
#include "backends/cpu/kernels/kernel_table.hpp"
#include "backends/cpu/kernels/unroll.hpp"

namespace bp::cpu::avx512_bf16 {
namespace {

using namespace avx512;

// Of S strips and N rows of activations, P of even and odd pairs of columns.
template <uint32_t S, uint32_t N, uint32_t P>
struct Sums {
  __m512 of[S][N][P];
};

// Pairs of columns are multiplied as they are.
template <Tuning T>
struct PairProducts {
  using X = uint16_t;  // an activation, and a weight of pairs that are made and kept
  static constexpr uint32_t kPanelRows = T == Tuning::kZen5 ? kGroupRows : 16;
  // So many rows that go through one strip have both sums in registers. (Measured.)
  static constexpr uint32_t kRowsOnce = T == Tuning::kZen5 ? 12 : 8;
  // Rows that go through one strip, whose pairs are made anew for each such tile and never stored.
  static constexpr uint32_t kTileRowsAtOnce = kRowsOnce;

  static void store(X* to, F32x16 x) { store_bf16(to, x); }
  static void store_pair(X* to, __m512i pair) { _mm512_store_si512(to, pair); }
  // Of a pair made before, element 0 <= at < kPairElements: row by row.
  static void store_weight(X* pair, uint32_t at, uint16_t weight) { pair[at] = weight; }

  struct Weights {
    __m512bh pair;
  };
  static Weights weights(__m512i pair) { return {reinterpret_cast<__m512bh>(pair)}; }
  static Weights load(const X* p) { return weights(_mm512_loadu_si512(p)); }

  // Adds pair i of kBf16Columns columns of S strips times that of N rows to sums p.
  template <uint32_t S, uint32_t N, uint32_t P>
  __attribute__((always_inline)) static void add(const Weights (&ws)[S], const X* x, uint32_t i,
                                                 uint32_t p, Sums<S, N, P>& sums) {
    BP_UNROLL for (uint32_t t = 0; t < N; ++t, x += kBf16Columns) {
      if constexpr (S == 1) {
        __m512& sum = sums.of[0][t][p];
        sum = t < shuffled_rows(N) ? _mm512_dpbf16_ps(sum, ws[0].pair, shuffled_pair(x, i))
                                   : add_product(sum, ws[0].pair, x + 2 * i);
      } else {
        const __m512bh pair = broadcast_pair(x + 2 * i);
        BP_UNROLL for (uint32_t s = 0; s < S; ++s) {
          __m512& sum = sums.of[s][t][p];
          sum = _mm512_dpbf16_ps(sum, ws[s].pair, pair);
        }
      }
    }
  }

 private:
  // With one strip each product loads its pair of activations, and as many loads a cycle as
  // products leave none for weights. Pairs of so many rows are loaded by fours and shuffled.
  // (Measured.)
  static constexpr uint32_t shuffled_rows(uint32_t n_rows) {
    if (T != Tuning::kZen5 || n_rows < 6) return 0;
    return n_rows == 6 ? 1 : 2;
  }

  // Pair i of kBf16Columns columns; the compiler loads each four once.
  static __m512bh shuffled_pair(const X* x, uint32_t i) {
    const auto* four = reinterpret_cast<const __m128i*>(x + i / 4 * 8);
    const __m512i all = _mm512_broadcast_i32x4(_mm_loadu_si128(four));
    const __m512i one = i % 4 == 0   ? _mm512_shuffle_epi32(all, _MM_PERM_AAAA)
                        : i % 4 == 1 ? _mm512_shuffle_epi32(all, _MM_PERM_BBBB)
                        : i % 4 == 2 ? _mm512_shuffle_epi32(all, _MM_PERM_CCCC)
                                     : _mm512_shuffle_epi32(all, _MM_PERM_DDDD);
    return reinterpret_cast<__m512bh>(one);
  }
  static __m512bh broadcast_pair(const X* p) {
    int32_t pair;
    __builtin_memcpy(&pair, p, sizeof pair);
    return reinterpret_cast<__m512bh>(_mm512_set1_epi32(pair));
  }
  // sum + w * the pair of columns at x, which the product itself reads: gcc 12 reads it by an
  // instruction of its own, which costs a quarter of the time in one of Zen 4's states.
  __attribute__((always_inline)) static __m512 add_product(__m512 sum, __m512bh w, const X* x) {
    using Pair [[gnu::may_alias]] = int32_t;
    asm("vdpbf16ps %2%{1to16%}, %1, %0"
        : "+v"(sum)
        : "v"(w), "m"(*reinterpret_cast<const Pair*>(x)));
    return sum;
  }
};

// As floats, each column by itself.
struct FloatProducts {
  using X = float;
  static constexpr uint32_t kPanelRows = 16, kRowsOnce = 8, kTileRowsAtOnce = kPanelRows;

  static void store(X* to, F32x16 x) {
    uint16_t narrow[16];
    store_bf16(narrow, x);
    avx512::store(to, load_bf16(narrow));
  }
  static void store_pair(X* to, __m512i pair) {
    const Weights w = weights(pair);
    _mm512_store_ps(to, w.even.v);
    _mm512_store_ps(to + kStripRows, w.odd.v);
  }
  static void store_weight(X* pair, uint32_t at, uint16_t weight) {
    const uint32_t bits = uint32_t{weight} << 16;
    __builtin_memcpy(pair + at % 2 * kStripRows + at / 2, &bits, sizeof bits);
  }

  using Weights = Bf16Pairs;
  static Weights weights(__m512i pair) { return widen_bf16_pairs(pair); }
  static Weights load(const X* p) { return {avx512::load(p), avx512::load(p + kStripRows)}; }

  template <uint32_t S, uint32_t N, uint32_t P>
  __attribute__((always_inline)) static void add(const Weights (&ws)[S], const X* x, uint32_t i,
                                                 uint32_t p, Sums<S, N, P>& sums) {
    BP_UNROLL for (int column = 1; column >= 0; --column) {
      BP_UNROLL for (uint32_t t = 0; t < N; ++t) {
        const __m512 own = _mm512_set1_ps(x[t * kBf16Columns + 2 * i + column]);
        BP_UNROLL for (uint32_t s = 0; s < S; ++s) {
          __m512& sum = sums.of[s][t][p];
          sum = _mm512_fmadd_ps(column == 1 ? ws[s].odd.v : ws[s].even.v, own, sum);
        }
      }
    }
  }
};

template <Tuning T>
using Arithmetic = std::conditional_t<kByFloats<T>, FloatProducts, PairProducts<T>>;

// Adds pair i of kBf16Columns columns of one strip times that of N rows, x from there.
template <class A, uint32_t N, uint32_t P>
__attribute__((always_inline)) inline void add_pair_at(uint32_t i, __m512i w,
                                                       const typename A::X* x,
                                                       Sums<1, N, P>& sums) {
  const typename A::Weights ws[1] = {A::weights(w)};
  A::add(ws, x, i, i % P, sums);
}

// Of the rows of S strips: powers of two.
template <uint32_t S>
struct Scales {
  __m512 of[S];
};

template <uint32_t S, uint32_t N, uint32_t P>
inline void clear(Sums<S, N, P>& sums) {
  BP_UNROLL for (uint32_t s = 0; s < S; ++s) {
    BP_UNROLL for (uint32_t t = 0; t < N; ++t) {
      BP_UNROLL for (uint32_t p = 0; p < P; ++p) sums.of[s][t][p] = _mm512_setzero_ps();
    }
  }
}

// Sums of even pairs [S][N] and of odd ones; the former where P = 1 have left the registers.
template <uint32_t S, uint32_t N, uint32_t P>
inline void store(const Sums<S, N, P>& sums, const __m512* even, const Scales<S>& scales, float* y,
                  size_t y_stride) {
  BP_UNROLL for (uint32_t t = 0; t < N; ++t) {
    BP_UNROLL for (uint32_t s = 0; s < S; ++s) {
      const __m512 sum =
          _mm512_add_ps(P == 2 ? sums.of[s][t][0] : even[s * N + t], sums.of[s][t][P - 1]);
      _mm512_storeu_ps(y + t * y_stride + s * kStripRows, _mm512_mul_ps(sum, scales.of[s]));
    }
  }
}

}  // namespace
}  // namespace bp::cpu::avx512_bf16
