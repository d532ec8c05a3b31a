#pragma once
// What is done beside products of pairs that are made already: asking memory for lines that follow,
// making further pairs.

#include "backends/cpu/kernels/avx512_bf16/split_strip.hpp"
#include "backends/cpu/kernels/unroll.hpp"

namespace bp::cpu::avx512_bf16 {
namespace {

// What products do beside while they go through kBf16Columns columns once: ask(), then a step with
// each two pairs, then end().
struct Nothing {
  struct Steps {
    void step(uint32_t) {}
  };
  [[nodiscard]] Steps steps() const { return {}; }
  void ask() {}
  void end() {}
};

// Asks for so many lines of each of S strips, into the cache of that level.
template <uint32_t S, int Level>
struct Lines : Nothing {
  const uint16_t* from[S];
  uint32_t n;
  __attribute__((always_inline)) void ask() {
    for (uint32_t i = 0; i < n; ++i) {
      BP_UNROLL for (uint32_t s = 0; s < S; ++s) {
        __builtin_prefetch(from[s], 0, 4 - Level);
        from[s] += kPairElements;
      }
    }
  }
};

// Likewise, and makes the pairs of the strips' next columns, which stores do beside products.
template <class A, uint32_t S, int Level>
struct LinesAndPairs : Lines<S, Level> {
  SplitStrip* strips;    // [S]
  typename A::X* to[S];  // all pairs
  size_t at;             // of the next
  uint32_t n_to_make;    // times kBf16Columns columns
  struct Steps {
    const uint8_t* block[S];
    __m512i upper_bytes[S];
    typename A::X* pairs[S];
    bool is_any;
    __attribute__((always_inline)) void step(uint32_t i) {
      if (!is_any) return;
      BP_UNROLL for (uint32_t s = 0; s < S; ++s) {
        SplitStrip::make<A>(block[s], i, upper_bytes[s], pairs[s]);
      }
    }
  };
  __attribute__((always_inline)) Steps steps() const {
    Steps all;
    all.is_any = n_to_make > 0;
    BP_UNROLL for (uint32_t s = 0; s < S; ++s) {
      all.block[s] = strips[s].next_block();
      all.upper_bytes[s] = strips[s].upper_bytes();
      all.pairs[s] = to[s] + at;
    }
    return all;
  }
  __attribute__((always_inline)) void end() {
    if (n_to_make == 0) return;
    --n_to_make;
    BP_UNROLL for (uint32_t s = 0; s < S; ++s) strips[s].template end_block<A>(to[s] + at);
    at += kUnitElements;
  }
};

}  // namespace
}  // namespace bp::cpu::avx512_bf16
