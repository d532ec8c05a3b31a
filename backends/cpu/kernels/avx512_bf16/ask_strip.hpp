#pragma once
// What rows of activations ask memory for while they go through a strip of bf16 in 12 bits.

#include "backends/cpu/kernels/avx512_bf16/split_strip.hpp"
#include "backends/cpu/kernels/kernel_table.hpp"
#include "backends/cpu/kernels/prefetch.hpp"
#include "backends/cpu/kernels/unroll.hpp"

namespace bp::cpu::avx512_bf16 {
namespace {

// Rows whose sums do not all fit into registers read so many columns twice, once for each of their
// sums. (Measured.)
constexpr uint32_t kColumnsTwice = 128;

// What of a strip N rows ask for while they read a block of it: before it, or with each two of its
// pairs. (Distances: measured.)
struct AskNothing {
  void block(const uint8_t*) const {}
  void two_pairs(const uint8_t*, uint32_t) const {}
};
template <uint32_t N, Tuning T>
struct AskAhead {
  // One row waits for memory alone.
  static constexpr bool kIsNear = T == Tuning::kZen4 && N == 1;
  static constexpr bool kBothLevels = T != Tuning::kZen5 && !kIsNear;
  static constexpr bool kIsStreamed = N <= kStreamedRows;
  static constexpr uint32_t kFarBytes = kIsNear ? 4096 : kIsStreamed ? 8192 : 12288;
  static constexpr int kFarLevel = T == Tuning::kZen5 ? 1 : 2;
  // Products that take long between two blocks hold up what is asked for all at once.
  static constexpr bool kWithPairs = T != Tuning::kZen4;
  static constexpr uint32_t kNearBytes = N == 1 || kWithPairs ? 2048 : kIsStreamed ? 1024 : 4096;
  static constexpr uint32_t kLines = Bf16Split::kBlockBytes / 64, kTimes = kUnitPairs / 2;
  __attribute__((always_inline)) void block(const uint8_t* block) const {
    if constexpr (!kWithPairs) ask(block, 0, kLines);
  }
  __attribute__((always_inline)) void two_pairs(const uint8_t* block, uint32_t time) const {
    if constexpr (kWithPairs) ask(block, time * kLines / kTimes, (time + 1) * kLines / kTimes);
  }

 private:
  __attribute__((always_inline)) static void ask(const uint8_t* block, uint32_t first,
                                                 uint32_t end) {
    BP_UNROLL for (uint32_t line = first; line < end; ++line) {
      prefetch<kFarLevel>(block, kFarBytes + 64 * line);
      if constexpr (kBothLevels) prefetch<1>(block, kNearBytes + 64 * line);
    }
  }
};

// What of the next columns one of two times asks for: half of what is far, the second one for what
// both will read.
template <uint32_t Time>
struct AskInTurn : AskNothing {
  static constexpr uint32_t kFarBytes = 12288, kHalfBytes = Bf16Split::kBlockBytes / 2;
  __attribute__((always_inline)) void block(const uint8_t* block) const {
    BP_UNROLL for (uint32_t i = 0; i < kHalfBytes; i += 64) {
      prefetch<2>(block, kFarBytes + Time * kHalfBytes + i);
    }
    constexpr uint32_t kNearBytes = kColumnsTwice / kBf16Columns * Bf16Split::kBlockBytes;
    BP_UNROLL for (uint32_t i = 0; Time == 1 && i < Bf16Split::kBlockBytes; i += 64) {
      prefetch<1>(block, kNearBytes + i);
    }
  }
};

// One of some tiles of rows, which go through a strip one after another, share what follows: so
// memory does not rest while later ones find the strip near. The first one finds asked for what it
// reads before its own requests arrive.
class AskShare {
 public:
  // Nothing but what is read already.
  explicit AskShare(const uint16_t* strip) : from_(reinterpret_cast<const uint8_t*>(strip)) {}
  AskShare(const uint16_t* strip, uint32_t n_columns, uint32_t tile, uint32_t n_tiles)
      : step_(Bf16Split::kBlockBytes / kTimes / n_tiles) {
    const size_t n_bytes = bf16_strip_bytes(Bf16Layout::kSplit, n_columns);
    const size_t ahead = n_bytes * (n_tiles - 1 + tile) / n_tiles;
    from_ = reinterpret_cast<const uint8_t*>(strip) + kAheadBytes + ahead;
  }
  void block(const uint8_t*) const {}
  __attribute__((always_inline)) void two_pairs(const uint8_t*, uint32_t) {
    prefetch<1>(from_, 0);
    from_ += step_;
  }

 private:
  static constexpr uint32_t kAheadBytes = 8192;  // measured
  static constexpr uint32_t kTimes = kUnitPairs / 2;
  const uint8_t* from_;
  uint32_t step_ = 0;  // a line at most, where there are two tiles or more
};
static_assert(Bf16Split::kBlockBytes / (kUnitPairs / 2) / 2 <= 64);

}  // namespace
}  // namespace bp::cpu::avx512_bf16
