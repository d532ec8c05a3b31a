// Dot products of one strip of quantised weights with a panel of quantised activations.

#include "backends/cpu/kernels/kernel_table.hpp"
#include "backends/cpu/kernels/strip_formats.inl"
#include "backends/cpu/kernels/sum_scale.inl"
#include "backends/cpu/kernels/unpacked_strip.inl"
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
  // Of sums of a half (0 or 1) of the block or of both (-1), with quants 128 above their values.
  [[nodiscard]] I32x16 start(int half, uint32_t t) const {
    return broadcast_int(words[(11 + half) * N + t]);
  }
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

// The records of strips that are multiplied together.
template <uint32_t S>
struct Records {
  const uint8_t* of[S];
};
template <class W, uint32_t S>
__attribute__((always_inline)) inline void next_records(Records<S>& records) {
  BP_UNROLL for (uint32_t s = 0; s < S; ++s) records.of[s] += W::kRecordBytes;
}
// Arrays of sums are [S][N], strips by rows.

// W where each product reads the activations, which otherwise two strips share.
template <class W>
struct EachReads : W {};
template <class W>
inline constexpr bool kEachReads = false;
template <class W>
inline constexpr bool kEachReads<EachReads<W>> = true;

// What a panel of N rows asks memory for: ask_before() block b of strips, and ask_with() columns
// [4 * First, 4 * End) of it. Lines that are asked for all at once wait for one another, and
// products for them.

// The first panel that meets a strip waits for memory. Few rows are through before the first-level
// cache had what is near: they read fastest what it was asked for from afar, where it has room for
// as many lines to wait.
template <Tuning T>
struct Stream {
  bool is_first;
};
template <uint32_t N, Tuning T>
constexpr bool kAsksWithColumns = N <= kStreamedRows &&
                                  (T == Tuning::kZen5 || (T == Tuning::kIntel && N > 1));
// (All distances: measured.)
constexpr size_t kFarBytes = 12288;
template <class W, Tuning T>
constexpr size_t kNearBytes = T == Tuning::kIntel ? 8 * W::kRecordBytes / W::kBlocks : 2048;

// Lines [Begin, End) of a block for few rows.
template <class W, uint32_t N, Tuning T, uint32_t Begin = 0, uint32_t End = block_lines<W>>
__attribute__((always_inline)) inline void ask_for_few(const uint8_t* body) {
  if constexpr (T == Tuning::kZen5 || (T == Tuning::kZen4 && N == 1)) {
    prefetch_lines<1, Begin, End>(body, 8192);
  } else {
    prefetch_far_and_near<W, kFarBytes, kNearBytes<W, T>, Begin, End>(body);
  }
}

template <class W, uint32_t N, Tuning T>
__attribute__((always_inline)) inline void ask_before(Records<1> records, uint32_t b,
                                                      Stream<T> stream) {
  if (kAsksWithColumns<N, T> || (N > 1 && !stream.is_first)) return;
  const uint8_t* body = W::body(records.of[0], b);
  if constexpr (N <= kStreamedRows) {
    ask_for_few<W, N, T>(body);
  } else {
    prefetch_far_and_near<W>(body);
  }
}
template <class W, uint32_t N, int First, int End, Tuning T>
__attribute__((always_inline)) inline void ask_with(Records<1> records, uint32_t b, Stream<T>) {
  if constexpr (kAsksWithColumns<N, T>) {
    constexpr uint32_t kLines = block_lines<W>;
    ask_for_few<W, N, T, First * kLines / 8, End * kLines / 8>(W::body(records.of[0], b));
  }
}

// Lines that lie elsewhere, before each block or one by one with its columns. What is more than one
// for each four columns goes before.
template <bool WithColumns>
struct Elsewhere {
  Ahead ahead;
  __attribute__((always_inline)) void ask() {
    __builtin_prefetch(ahead.from, 0, 2);
    ahead.from += 64;
  }
};
template <class W, uint32_t N, uint32_t S, bool WithColumns>
__attribute__((always_inline)) inline void ask_before(Records<S>, uint32_t,
                                                      Elsewhere<WithColumns>& asks) {
  for (uint32_t i = WithColumns ? kPanelColumns / 4 : 0; i < asks.ahead.n_lines; ++i) asks.ask();
}
template <class W, uint32_t N, int First, int End, uint32_t S, bool WithColumns>
__attribute__((always_inline)) inline void ask_with(Records<S>, uint32_t,
                                                    Elsewhere<WithColumns>& asks) {
  BP_UNROLL for (uint32_t i = First; i < End; ++i) {
    if (WithColumns && asks.ahead.n_lines > i) asks.ask();
  }
}

// x: four columns of a row, or where they are.
template <class W, class X>
__attribute__((always_inline)) inline I32x16 add_product(I32x16 sum, U8x64 w, X x) {
  return W::kSigned ? dot_signed(sum, w, x) : dot(sum, w, x);
}

// Adds four columns of strips, whose quants w are, times rows of x.
template <class W, uint32_t N, uint32_t S>
__attribute__((always_inline)) inline void add_products(const U8x64* w, uint32_t k,
                                                        PanelRecord<N> x, I32x16* sums) {
  constexpr bool kShared = S > 1 && !kEachReads<W>;
  BP_UNROLL for (uint32_t t = 0; t < N; ++t) {
    const int32_t& own = x.quants(k, t);
    BP_UNROLL for (uint32_t s = 0; s < S; ++s) {
      I32x16& sum = sums[s * N + t];
      if constexpr (kShared) {
        sum = add_product<W>(sum, w[s], own);
      } else {
        sum = add_product<W>(sum, w[s], &own);
      }
    }
  }
}

// Adds columns [4 * First, 4 * End) of block b. Where products are summed in pairs first, these
// take as many columns as 16 bits have room for.
template <class W, uint32_t N, uint32_t S, int First, int End, class Asks>
__attribute__((always_inline)) inline void sum_columns(Records<S> records, uint32_t b, Asks& asks,
                                                       PanelRecord<N> x, I32x16* sums) {
  if constexpr (First < End) {
    constexpr bool kInPairs = kSumsPairs && (kPairSums<W>) >= 2;
    if constexpr (kInPairs) {
      static_assert(S == 1);
      constexpr int kNext = First + kPairSums<W> < End ? First + kPairSums<W> : End;
      ask_with<W, N, First, kNext>(records, b, asks);
      const uint8_t* body = W::body(records.of[0], b);
      const auto w = W::template quants<First>(body);
      decltype(multiply_pairs(w, 0)) pairs[N];
      BP_UNROLL for (uint32_t t = 0; t < N; ++t) pairs[t] = multiply_pairs(w, x.quants(First, t));
      add_columns_in_pairs<W, N, First + 1, kNext>(body, x, pairs);
      BP_UNROLL for (uint32_t t = 0; t < N; ++t) sums[t] = add_pairs(sums[t], pairs[t]);
      sum_columns<W, N, S, kNext, End>(records, b, asks, x, sums);
    } else {
      ask_with<W, N, First, First + 1>(records, b, asks);
      U8x64 w[S];
      BP_UNROLL for (uint32_t s = 0; s < S; ++s) {
        w[s] = W::template quants<First>(W::body(records.of[s], b));
      }
      add_products<W, N, S>(w, First, x, sums);
      sum_columns<W, N, S, First + 1, End>(records, b, asks, x, sums);
    }
  }
}

// Panels have sums' starts for an offset of 128.
template <class W>
constexpr int offset_shift = __builtin_ctz(128 / (W::kOffset == 0 ? 128 : W::kOffset));

// Starts sums at Start, less what the quants' offset adds.
template <class W, uint32_t N, uint32_t S, int32_t Start = kSumStart>
__attribute__((always_inline)) inline void start_sums(PanelRecord<N> x, int half, I32x16* sums) {
  constexpr int kShift = offset_shift<W>;
  constexpr int32_t kRest = Start - (kSumStart >> kShift);
  BP_UNROLL for (uint32_t t = 0; t < N; ++t) {
    I32x16 sum = broadcast_int(Start);
    if constexpr (W::kOffset != 0) {
      sum = x.start(half, t);
      if constexpr (kShift != 0) sum = shift_right<kShift>(sum);
      if constexpr (kRest != 0) sum = add(sum, broadcast_int(kRest));
    }
    BP_UNROLL for (uint32_t s = 0; s < S; ++s) sums[s * N + t] = sum;
  }
}

template <class W, uint32_t N>
__attribute__((always_inline)) inline void fold(const uint8_t* record, uint32_t b, PanelRecord<N> x,
                                                const I32x16* sums, F32x16* y) {
  const SumScale<W::kSubtractsStart> scale(unit_scale<W>(record, b, 0));
  BP_UNROLL for (uint32_t t = 0; t < N; ++t) {
    y[t] = fma(scale.times(sums[t]), x.scale(t), y[t]);
  }
  if constexpr (W::kHasMinimum) {
    const F32x16 minimum = W::minimum(record, b);
    BP_UNROLL for (uint32_t t = 0; t < N; ++t) y[t] = fma(minimum, x.sum(t), y[t]);
  }
}

template <class W, uint32_t N, uint32_t S>
__attribute__((always_inline)) inline void fold_all(Records<S> records, uint32_t b,
                                                    PanelRecord<N> x, const I32x16* sums,
                                                    F32x16* y) {
  BP_UNROLL for (uint32_t s = 0; s < S; ++s) fold<W>(records.of[s], b, x, sums + s * N, y + s * N);
}

template <class W, uint32_t N, uint32_t S, class Asks>
__attribute__((always_inline)) inline void dot_block(Records<S> records, uint32_t b, Asks& asks,
                                                     PanelRecord<N> x, F32x16* y) {
  I32x16 sums[S * N];
  start_sums<W, N, S>(x, -1, sums);
  sum_columns<W, N, S, 0, 8>(records, b, asks, x, sums);
  fold_all<W>(records, b, x, sums, y);
}

template <class W, uint32_t N, uint32_t S, int Half, class Asks>
inline void add_half_of_factors(Records<S> records, uint32_t b, Asks& asks, PanelRecord<N> x,
                                I32x16* totals) {
  I32x16 sums[S * N];
  // Factors multiply the lower 16 bits.
  constexpr int32_t kStart = W::kOffset == 0 ? 0 : kSumStart >> offset_shift<W>;
  static_assert((kStart & 0xffff) == 0);
  start_sums<W, N, S, kStart>(x, Half, sums);
  sum_columns<W, N, S, 4 * Half, 4 * Half + 4>(records, b, asks, x, sums);
  BP_UNROLL for (uint32_t s = 0; s < S; ++s) {
    const Factors factors = W::factors(records.of[s], b, Half);
    BP_UNROLL for (uint32_t t = 0; t < N; ++t) {
      I32x16& total = totals[s * N + t];
      total = add_multiple(total, sums[s * N + t], factors);
    }
  }
}

// Where quants are pairs of bits, tables in lanes multiply them by their factor.
template <class W, uint32_t N, uint32_t S, int Half, int I = 0, class Asks>
__attribute__((always_inline)) inline void sum_multiples(Records<S> records, uint32_t b, Asks& asks,
                                                         PanelRecord<N> x, I32x16* sums) {
  if constexpr (I < 4) {
    ask_with<W, N, 4 * Half + I, 4 * Half + I + 1>(records, b, asks);
    U8x64 w[S];
    BP_UNROLL for (uint32_t s = 0; s < S; ++s) {
      const auto multiples = multiples_of(W::factors(records.of[s], b, Half));
      w[s] = multiples_at<I>(multiples, load_bytes(W::body(records.of[s], b) + 64 * Half));
    }
    add_products<W, N, S>(w, 4 * Half + I, x, sums);
    sum_multiples<W, N, S, Half, I + 1>(records, b, asks, x, sums);
  }
}

// The halves' sums times their factors, added as integers.
template <class W, uint32_t N, uint32_t S, class Asks>
__attribute__((always_inline)) inline void sum_with_factors(Records<S> records, uint32_t b,
                                                            Asks& asks, PanelRecord<N> x,
                                                            I32x16* sums) {
  BP_UNROLL for (uint32_t i = 0; i < S * N; ++i) sums[i] = broadcast_int(0);
  if constexpr (W::kLargest == 3 && N >= kTablePanel) {
    static_assert(W::kOffset == 0);
    sum_multiples<W, N, S, 0>(records, b, asks, x, sums);
    sum_multiples<W, N, S, 1>(records, b, asks, x, sums);
  } else {
    add_half_of_factors<W, N, S, 0>(records, b, asks, x, sums);
    add_half_of_factors<W, N, S, 1>(records, b, asks, x, sums);
  }
}

// The halves are added in float before they meet the scale of the activations.
template <class W, uint32_t N, uint32_t S, class Asks>
__attribute__((always_inline)) inline void dot_block_of_halves(Records<S> records, uint32_t b,
                                                               Asks& asks, PanelRecord<N> x,
                                                               F32x16* y) {
  I32x16 sums[S * N];
  F32x16 both[S * N];
  start_sums<W, N, S>(x, 0, sums);
  sum_columns<W, N, S, 0, 4>(records, b, asks, x, sums);
  BP_UNROLL for (uint32_t s = 0; s < S; ++s) {
    const SumScale<W::kSubtractsStart> first(unit_scale<W>(records.of[s], b, 0));
    BP_UNROLL for (uint32_t i = s * N; i < (s + 1) * N; ++i) both[i] = first.times(sums[i]);
  }
  start_sums<W, N, S>(x, 1, sums);
  sum_columns<W, N, S, 4, 8>(records, b, asks, x, sums);
  BP_UNROLL for (uint32_t s = 0; s < S; ++s) {
    const F32x16 second = unit_scale<W>(records.of[s], b, 1);
    BP_UNROLL for (uint32_t t = 0; t < N; ++t) {
      const uint32_t i = s * N + t;
      y[i] = fma(fma(value_of(sums[i]), second, both[i]), x.scale(t), y[i]);
    }
  }
}

// The parts of a panel.
template <uint32_t N>
class Panel {
 public:
  Panel(const int32_t* words, uint32_t n_blocks)
      : second_of_(words + 1),
        half_sums_(words + panel_header_words(n_blocks)),
        records_(words + panel_records_word(n_blocks, N)),
        seconds_(records_ + size_t{n_blocks} * kPanelWords * N) {}

  // f(PanelRecord) for a block's record, and for its second one where it has one.
  template <class F>
  __attribute__((always_inline)) void for_records(uint32_t block, F&& f) const {
    const int32_t* const record = records_ + size_t{block} * kPanelWords * N;
    const int32_t second = second_of_[block];
    for (const int32_t* x = record; x != nullptr;) {
      f(PanelRecord<N>{x});
      x = second >= 0 && x == record ? seconds_ + static_cast<size_t>(second) * kPanelWords * N
                                     : nullptr;
    }
  }
  // Pairs of row t for a block of the columns that begin with block `first`, and their unit.
  [[nodiscard]] const int32_t& half_sums(uint32_t first, uint32_t b, uint32_t t) const {
    return group(first)[b * N + t];
  }
  [[nodiscard]] F32x16 half_sum_unit(uint32_t first, uint32_t t) const {
    return broadcast(reinterpret_cast<const float*>(group(first))[kHalfSumBlocks * N + t]);
  }

 private:
  [[nodiscard]] const int32_t* group(uint32_t first) const {
    return half_sums_ + size_t{first / kHalfSumBlocks} * kHalfSumWords * N;
  }
  const int32_t *second_of_, *half_sums_, *records_, *seconds_;
};

// What is unpacked, or read, for a first record is not kept for a second, which few blocks have.
template <class W>
__attribute__((always_inline)) inline void unpack_anew(Records<2>& records) {
  asm("" : "+r"(records.of[0]), "+r"(records.of[1]));
}
// (Measured: where registers are few, all but quants of many steps that need no room for pairs.)
template <class W>
__attribute__((always_inline)) inline void unpack_anew(Records<1>& records) {
  constexpr bool kGains = kSumsPairs || W::kSteps != Steps::kMany;
  if constexpr (kUnpacks && kUnpackedStrips == 1 && kGains) asm("" : "+r"(records.of[0]));
}

template <class W, uint32_t N, uint32_t S, class Asks>
__attribute__((always_inline)) inline void dot_any_block(Records<S> records, uint32_t b, Asks& asks,
                                                         PanelRecord<N> x, F32x16* y) {
  if constexpr (W::kHalves) {
    dot_block_of_halves<W>(records, b, asks, x, y);
  } else {
    dot_block<W>(records, b, asks, x, y);
  }
}

// Adds a record's minimums, times the half sums of the n blocks from `first` on.
template <class W, uint32_t N, uint32_t S>
__attribute__((always_inline)) inline void add_minimums(Records<S> records, const Panel<N>& panel,
                                                        uint32_t first, uint32_t n, float* y) {
  static_assert(W::kBlocks == kHalfSumBlocks);
  I32x16 sums[S * N];
  BP_UNROLL for (uint32_t i = 0; i < S * N; ++i) sums[i] = broadcast_int(0);
  for (uint32_t b = 0; b < n; ++b) {
    FactorPairs factors[S];
    BP_UNROLL for (uint32_t s = 0; s < S; ++s) factors[s] = W::minimum_factors(records.of[s], b);
    BP_UNROLL for (uint32_t t = 0; t < N; ++t) {
      BP_UNROLL for (uint32_t s = 0; s < S; ++s) {
        I32x16& sum = sums[s * N + t];
        sum = add_pair_products(sum, factors[s], panel.half_sums(first, b, t));
      }
    }
  }
  BP_UNROLL for (uint32_t s = 0; s < S; ++s) {
    const F32x16 minimum = W::minimum(records.of[s], 0);
    BP_UNROLL for (uint32_t t = 0; t < N; ++t) {
      float* sum = y + (s * N + t) * kStripRows;
      const F32x16 unit = mul(minimum, panel.half_sum_unit(first, t));
      store(sum, fma(to_float(sums[s * N + t]), unit, load(sum)));
    }
  }
}

// The n blocks of a record from block `first` on, where factors and their minimums' are all that
// differs from block to block: the record's scale folds once, and its minimum.
template <class W, uint32_t N, uint32_t S, class Asks>
__attribute__((always_inline)) inline void dot_record(Records<S> records, Asks& asks,
                                                      const Panel<N>& panel, uint32_t first,
                                                      uint32_t n, float* y) {
  F32x16 products[S * N];
  BP_UNROLL for (uint32_t i = 0; i < S * N; ++i) products[i] = zero();
  for (uint32_t b = 0; b < n; ++b) {
    ask_before<W, N>(records, b, asks);
    panel.for_records(
        first + b, [&](PanelRecord<N> x) __attribute__((always_inline)) {
          unpack_anew<W>(records);
          I32x16 sums[S * N];
          sum_with_factors<W>(records, b, asks, x, sums);
          BP_UNROLL for (uint32_t t = 0; t < N; ++t) {
            BP_UNROLL for (uint32_t i = t; i < S * N; i += N) {
              products[i] = fma(to_float(sums[i]), x.scale(t), products[i]);
            }
          }
        });
  }
  if constexpr (W::kHasMinimum) add_minimums<W, N, S>(records, panel, first, n, y);
  BP_UNROLL for (uint32_t s = 0; s < S; ++s) {
    const F32x16 scale = W::scale(records.of[s], 0, 0);
    BP_UNROLL for (uint32_t t = 0; t < N; ++t) {
      float* sum = y + (s * N + t) * kStripRows;
      store(sum, fma(products[s * N + t], scale, load(sum)));
    }
  }
}

// Records that are unpacked already, if they ever are.
struct UnpackNothing {
  void next() {}
};
// Unpacks a block of each strip each time.
template <class W, uint32_t S>
struct Unpack {
  Records<S> packed;
  uint8_t* unpacked;
  uint32_t b = 0;
  __attribute__((always_inline)) void next() {
    BP_UNROLL for (uint32_t s = 0; s < S; ++s) {
      unpack_block<W>(packed.of[s], b, unpacked + s * kUnpackedBytes);
    }
    unpacked += Unpacked<W>::kRecordBytes;
    if (++b < W::kBlocks) return;
    b = 0;
    next_records<W>(packed);
  }
};

// Blocks [block, end) of a panel, whose first is the records' first.
template <class W, uint32_t N, uint32_t S, class Asks, class Unpack>
__attribute__((always_inline)) inline void dot_blocks(Records<S> records, uint32_t block,
                                                      uint32_t end, Asks& asks, Unpack unpack,
                                                      const Panel<N>& panel, F32x16* y) {
  while (block < end) {
    for (uint32_t b = 0; b < W::kBlocks && block < end; ++b, ++block) {
      ask_before<W, N>(records, b, asks);
      unpack.next();
      panel.for_records(
          block, [&](PanelRecord<N> x) __attribute__((always_inline)) {
            unpack_anew<W>(records);
            dot_any_block<W>(records, b, asks, x, y);
          });
    }
    next_records<W>(records);
  }
}

// Asks: a Stream of one strip, or Elsewhere of two.
template <class W, uint32_t N, uint32_t S, class Asks>
inline void dot_strips(Records<S> records, Asks asks, uint32_t n_columns, const int32_t* words,
                       float* out, size_t out_stride) {
  const uint32_t n_blocks = n_columns / kPanelColumns;
  const Panel<N> panel(words, n_blocks);
  const auto put = [&](uint32_t s, uint32_t t, F32x16 sum) __attribute__((always_inline)) {
    store(out + t * out_stride + s * kStripRows, sum);
  };
  if constexpr (kFoldsRecords<W>) {
    alignas(64) float y[S * N * kStripRows] = {};  // registers have no room for it
    for (uint32_t block = 0; block < n_blocks; block += W::kBlocks) {
      const uint32_t n_left = n_blocks - block;
      dot_record<W>(records, asks, panel, block, n_left < W::kBlocks ? n_left : W::kBlocks, y);
      next_records<W>(records);
    }
    BP_UNROLL for (uint32_t s = 0; s < S; ++s) {
      BP_UNROLL for (uint32_t t = 0; t < N; ++t) put(s, t, load(y + (s * N + t) * kStripRows));
    }
  } else {
    F32x16 y[S * N];
    BP_UNROLL for (uint32_t i = 0; i < S * N; ++i) y[i] = zero();
    dot_blocks<W, N>(records, 0, n_blocks, asks, UnpackNothing(), panel, y);
    BP_UNROLL for (uint32_t s = 0; s < S; ++s) {
      BP_UNROLL for (uint32_t t = 0; t < N; ++t) put(s, t, y[s * N + t]);
    }
  }
}

template <class W, uint32_t N, Tuning T>
void strip_dot(const uint8_t* strip, bool is_first, uint32_t n_columns, const int32_t* panel,
               float* out, size_t out_stride) {
  dot_strips<W, N>(Records<1>{{strip}}, Stream<T>{is_first}, n_columns, panel, out, out_stride);
}

template <class W, uint32_t N, bool WithColumns>
void strip_pair_dot(const uint8_t* strip, size_t strip_bytes, Ahead ahead, uint32_t n_columns,
                    const int32_t* panel, float* out, size_t out_stride) {
  dot_strips<W, N>(Records<2>{{strip, strip + strip_bytes}}, Elsewhere<WithColumns>{ahead},
                   n_columns, panel, out, out_stride);
}

// S strips of a pair, whose unpacked parts begin at `unpacked`.
template <class W, uint32_t N, uint32_t S, bool WithColumns, class Unpack>
__attribute__((always_inline)) inline void dot_unpacked(Unpack unpack, const uint8_t* unpacked,
                                                        const StripPart& part, Ahead ahead,
                                                        const int32_t* words, float* out,
                                                        size_t out_stride) {
  F32x16 y[S * N];
  const auto for_sums = [&](auto&& f) __attribute__((always_inline)) {
    BP_UNROLL for (uint32_t t = 0; t < N; ++t) {
      BP_UNROLL for (uint32_t s = 0; s < S; ++s) {
        f(y[s * N + t], out + t * out_stride + s * kStripRows);
      }
    }
  };
  if (part.begin == 0) {
    for_sums([](F32x16& sum, const float*) { sum = zero(); });
  } else {
    for_sums([](F32x16& sum, const float* at) { sum = load(at); });
  }
  Records<S> records;
  BP_UNROLL for (uint32_t s = 0; s < S; ++s) records.of[s] = unpacked + s * kUnpackedBytes;
  Elsewhere<WithColumns> asks{ahead};
  dot_blocks<W, N>(records, part.begin, part.end, asks, unpack, Panel<N>(words, part.n_blocks), y);
  for_sums([](F32x16 sum, float* at) { store(at, sum); });
}

// Calls f(strip, what it asks for, where its results go) for both strips of a pair, or once for the
// first where they are multiplied together.
template <class F>
__attribute__((always_inline)) inline void for_strips_of_pair(const StripPart& part, Ahead ahead,
                                                              float* out, F&& f) {
  if constexpr (kUnpackedStrips == 2) {
    f(0, ahead, out);
  } else {
    const uint32_t n_second = ahead.n_lines / 2, n_first = ahead.n_lines - n_second;
    f(0, Ahead{ahead.from, n_first}, out);
    ahead.from += size_t{n_first} * (part.end - part.begin) * 64;
    f(1, Ahead{ahead.from, n_second}, out + kStripRows);
  }
}

template <class W, uint32_t N, bool WithColumns>
void unpacked_pair_dot(const uint8_t* unpacked, const StripPart& part, Ahead ahead,
                       const int32_t* words, float* out, size_t out_stride) {
  for_strips_of_pair(part, ahead, out, [&](uint32_t s, Ahead own, float* to) {
    dot_unpacked<W, N, kUnpackedStrips, WithColumns>(UnpackNothing(), unpacked + s * kUnpackedBytes,
                                                     part, own, words, to, out_stride);
  });
}

template <class Packed, class W, uint32_t N, bool WithColumns>
void unpacking_pair_dot(const uint8_t* strip, size_t strip_bytes, const StripPart& part,
                        Ahead ahead, const int32_t* words, float* out, size_t out_stride,
                        uint8_t* unpacked) {
  const uint8_t* first = strip + size_t{part.begin / Packed::kBlocks} * Packed::kRecordBytes;
  for_strips_of_pair(part, ahead, out, [&](uint32_t s, Ahead own, float* to) {
    Unpack<Packed, kUnpackedStrips> unpack{{}, unpacked + s * kUnpackedBytes};
    BP_UNROLL for (uint32_t i = 0; i < kUnpackedStrips; ++i) {
      unpack.packed.of[i] = first + (s + i) * strip_bytes;
    }
    dot_unpacked<W, N, kUnpackedStrips, WithColumns>(unpack, unpacked + s * kUnpackedBytes, part,
                                                     own, words, to, out_stride);
  });
}

// Packed's strips unpacked, which W reads. Whole panels, most of many rows', ask before blocks: how
// much is left to ask for would be looked at too often.
template <class Packed, class W, uint32_t N, bool WithColumns>
void set_unpacked_as(Kernels& kernels, int layout) {
  constexpr bool kOwnWithColumns = N == kMaxPanel ? false : WithColumns;
  kernels.unpacked_pair_dot[layout][N] = unpacked_pair_dot<W, N, kOwnWithColumns>;
  if constexpr (N == kMaxPanel) {
    kernels.unpacking_pair_dot[layout] = unpacking_pair_dot<Packed, W, N, WithColumns>;
  }
}

template <class W, uint32_t N>
void set_unpacked(Kernels& kernels, StripLayout layout, Tuning tuning) {
  const auto of = static_cast<int>(layout);
  kernels.unpacked_from[of] = unpacked_from<W>(tuning);
  if (kernels.unpacked_from[of] == kNeverUnpacked) return;
  if constexpr (kUnpackedStrips == 2) {
    if (tuning == Tuning::kZen4) {
      return set_unpacked_as<W, EachReads<Unpacked<W>>, N, false>(kernels, of);
    }
  }
  set_unpacked_as<W, Unpacked<W>, N, true>(kernels, of);
}

template <class W, uint32_t N>
void set_width(Kernels& kernels, StripLayout layout, Tuning tuning) {
  StripDot& dot = kernels.strip_dot[static_cast<int>(layout)][N];
  dot = strip_dot<W, N, Tuning::kZen5>;
  if constexpr (kIsTuned && N <= kStreamedRows) {
    if (tuning == Tuning::kIntel) dot = strip_dot<W, N, Tuning::kIntel>;
    if (tuning == Tuning::kZen4) dot = strip_dot<W, N, Tuning::kZen4>;
  }
  if constexpr (N >= kPairedPanel) {
    StripPairDot& pair_dot = kernels.strip_pair_dot[static_cast<int>(layout)][N];
    pair_dot = strip_pair_dot<W, N, false>;
    if constexpr (N >= kUnpackedPanel) {  // narrower ones are the last of many
      if (tuning == Tuning::kIntel) pair_dot = strip_pair_dot<W, N, true>;
    }
    if constexpr (W::kHasMinimum) {
      if (tuning == Tuning::kZen4) pair_dot = strip_pair_dot<EachReads<W>, N, false>;
    }
  }
  if constexpr (kUnpacks && kMayUnpack<W> && N >= kUnpackedPanel) {
    set_unpacked<W, N>(kernels, layout, tuning);
  }
}

template <class W, uint32_t N = 1>
void set_widths(Kernels& kernels, StripLayout layout, Tuning tuning) {
  if constexpr (N <= kMaxPanel) {
    set_width<W, N>(kernels, layout, tuning);
    set_widths<W, N + 1>(kernels, layout, tuning);
  }
}

// What another instruction set, whose kernels are the begin of these, has and these do not replace.
void forget_strip_kernels(Kernels& kernels) {
  for (uint32_t layout = 0; layout < kStripLayouts; ++layout) {
    kernels.unpacking_pair_dot[layout] = nullptr;
    for (uint32_t n = 0; n <= kMaxPanelRows; ++n) {
      kernels.strip_dot[layout][n] = nullptr;
      kernels.strip_pair_dot[layout][n] = nullptr;
      kernels.unpacked_pair_dot[layout][n] = nullptr;
    }
  }
}

}  // namespace

void set_strip_kernels(Kernels& kernels, Tuning tuning) {
  forget_strip_kernels(kernels);
  kernels.max_panel_rows = kMaxPanel;
  kernels.pairs_strips = kPairedPanel <= kMaxPanel || kUnpacks;
  for_each_format([&](auto format, StripLayout layout) {
    set_widths<decltype(format)>(kernels, layout, tuning);
  });
}

}  // namespace bp::cpu::BP_CPU_ISA
