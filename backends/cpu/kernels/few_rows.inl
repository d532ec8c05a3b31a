// Query rows in fours, whose sums fit into registers.
#pragma once

#include "backends/cpu/kernels/kernel_table.hpp"
#include "backends/cpu/kernels/unroll.hpp"

namespace bp::cpu::BP_CPU_ISA {
namespace {

constexpr uint32_t kFewRows = 4;

// While a line of a tile is read the caches are asked for one of the next tile. Where the first
// level has no room for two tiles, Zen 4's 32 KB, or waits for few lines at once, Intel's, that one
// goes to the second, and the first is asked for what is soon read. (Distance: measured.) Inlined
// always: gcc drops a function that has no other effect.
template <Tuning T>
constexpr bool kAsksBothLevels = T != Tuning::kZen5;

// Of so many rows all ask for the next tile, of more the first ones: of what is asked for in the
// first level alone some is not there yet, or no longer. (Measured.)
template <Tuning T>
constexpr uint32_t kAskingRows = kAsksBothLevels<T> ? 0 : 4 * kFewRows;

template <Tuning T>
__attribute__((always_inline)) inline void ask_next(const uint8_t* wanted) {
  __builtin_prefetch(wanted, 0, kAsksBothLevels<T> ? 2 : 3);
}
constexpr uint32_t kNearBytes = 2048;
template <Tuning T>
__attribute__((always_inline)) inline void ask_near(const void* read) {
  if constexpr (kAsksBothLevels<T>) {
    __builtin_prefetch(static_cast<const uint8_t*>(read) + kNearBytes);
  }
}

// The same for kBytes at `from`: what takes their place in what is read after the tile.
template <Tuning T, uint32_t kBytes>
__attribute__((always_inline)) inline void ask_ahead(ptrdiff_t ahead, const void* from) {
  constexpr uint32_t kLine = 64;
  const auto* read = static_cast<const uint8_t*>(from);
  BP_UNROLL for (uint32_t i = 0; i < kBytes; i += kLine) {
    ask_next<T>(read + ahead + i);
    ask_near<T>(read + i);
  }
}
template <Tuning T, uint32_t kBytes>
__attribute__((always_inline)) inline void ask_ahead(const KvTile& tile, const void* from) {
  ask_ahead<T, kBytes>(tile.ahead, from);
}

// Where rows that are computed together stand among those that meet a tile: alone or first they
// read what comes from memory, later ones what those before them brought near.
enum class Turn { kAlone, kFirst, kLater };

// M query rows that are computed together.
template <Tuning T, uint32_t M, Turn kTurn>
struct FewRows {
  static constexpr Tuning kTuning = T;
  static constexpr uint32_t kRows = M;
  static constexpr bool kAlone = kTurn == Turn::kAlone;
  static constexpr bool kAsks = kTurn != Turn::kLater;

  // Vectors of 16 positions or columns whose sums for M rows fit into registers, and are enough not
  // to wait for one another.
  static constexpr uint32_t kVectors = kManyRegisters ? 4 : M == 1 ? 4 : M == 2 ? 2 : 1;
  // Of columns. Memory is read faster in the order in which it lies: rows of values whole.
  static constexpr uint32_t kColumnVectors = kManyRegisters && kAlone && M <= 2 ? 8 : kVectors;

  // By the tile, or as far ahead.
  template <uint32_t kBytes, class Ahead>
  __attribute__((always_inline)) static void ask_ahead(const Ahead& ahead, const void* from) {
    if constexpr (kAsks) BP_CPU_ISA::ask_ahead<T, kBytes>(ahead, from);
  }
};

// Calls f(first row, FewRows of 1 to kMost rows) until n_rows are done.
template <Tuning T, Turn kTurn, uint32_t kMost, class F>
inline void for_rows_from(uint32_t row, uint32_t n_rows, F&& f) {
  for (; row + kMost <= n_rows; row += kMost) f(row, FewRows<T, kMost, kTurn>());
  if constexpr (kMost > 1) for_rows_from<T, kTurn, kMost - 1>(row, n_rows, f);
}
template <Tuning T, uint32_t kMost, class F>
inline void for_rows(uint32_t n_rows, F&& f) {
  if (n_rows <= kMost) return for_rows_from<T, Turn::kAlone, kMost>(0, n_rows, f);
  if (n_rows <= kAskingRows<T>) return for_rows_from<T, Turn::kFirst, kMost>(0, n_rows, f);
  f(0, FewRows<T, kMost, Turn::kFirst>());
  for_rows_from<T, Turn::kLater, kMost>(kMost, n_rows, f);
}
template <Tuning T, class F>
inline void for_few_rows(uint32_t n_rows, F&& f) {
  for_rows<T, kFewRows>(n_rows, f);
}
// Where products are of floats.
template <Tuning T, class F>
inline void for_float_rows(uint32_t n_rows, F&& f) {
  for_rows<T, kFloatQueries>(n_rows, f);
}

}  // namespace
}  // namespace bp::cpu::BP_CPU_ISA
