// The bodies of kernels/ptx.cuh: what a warp's registers hold, gathered into matrices and back.

#include "backends/cuda/kernels/ptx.cuh"

#include <algorithm>

namespace bp::cuda {

namespace {

using emulator::Block;
using emulator::kWarpSize;

template <class Sum>
struct Registers {
  Sum* c;
  const uint32_t* a;
  const uint32_t* b;
};

float element(uint32_t word, uint32_t i, float (*widen)(uint16_t)) {
  return widen(static_cast<uint16_t>(word >> (16 * i)));
}

struct F16 {
  using Sum = float;
  static constexpr uint32_t kPerWord = 2;
  static float get(uint32_t word, uint32_t i) { return element(word, i, f16_value); }
};
struct BF16 {
  using Sum = float;
  static constexpr uint32_t kPerWord = 2;
  static float get(uint32_t word, uint32_t i) { return element(word, i, bf16_value); }
};
struct S8 {
  using Sum = int32_t;
  static constexpr uint32_t kPerWord = 4;
  static int32_t get(uint32_t word, uint32_t i) { return static_cast<int8_t>(word >> (8 * i)); }
};

template <class T>
void multiply(void* const* arguments, uint32_t) {
  constexpr uint32_t kHalf = 4 * T::kPerWord, kDepth = 2 * kHalf;
  typename T::Sum a[16][kDepth], b[kDepth][8];
  for (uint32_t lane = 0; lane < kWarpSize; ++lane) {
    const auto& r = *static_cast<Registers<typename T::Sum>*>(arguments[lane]);
    const uint32_t group = lane / 4, member = lane % 4;
    for (uint32_t word = 0; word < 4; ++word) {
      for (uint32_t i = 0; i < T::kPerWord; ++i) {
        const uint32_t k = word / 2 * kHalf + member * T::kPerWord + i;
        a[group + word % 2 * 8][k] = T::get(r.a[word], i);
      }
    }
    for (uint32_t word = 0; word < 2; ++word) {
      for (uint32_t i = 0; i < T::kPerWord; ++i) {
        b[word * kHalf + member * T::kPerWord + i][group] = T::get(r.b[word], i);
      }
    }
  }
  for (uint32_t lane = 0; lane < kWarpSize; ++lane) {
    const auto& r = *static_cast<Registers<typename T::Sum>*>(arguments[lane]);
    for (uint32_t i = 0; i < 4; ++i) {
      const uint32_t row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
      typename T::Sum sum = 0;
      for (uint32_t k = 0; k < kDepth; ++k) sum += a[row][k] * b[k][column];
      r.c[i] += sum;
    }
  }
}

template <class T>
void mma(typename T::Sum* c, const uint32_t* a, const uint32_t* b) {
  Registers<typename T::Sum> registers{c, a, b};
  Block::current().wait_for_warp(0xffffffffu, "mma.sync", multiply<T>, &registers);
}

struct MatrixRows {
  const void* row;
  uint32_t* words;
};

uint16_t matrix_element(void* const* arguments, uint32_t matrix, uint32_t row, uint32_t column) {
  const auto* given = static_cast<MatrixRows*>(arguments[8 * matrix + row]);
  uint16_t value;
  std::memcpy(&value, static_cast<const uint8_t*>(given->row) + 2 * column, sizeof value);
  return value;
}

template <bool kTransposed>
void distribute(void* const* arguments, uint32_t) {
  for (uint32_t lane = 0; lane < kWarpSize; ++lane) {
    const uint32_t row = lane / 4, column = lane % 4 * 2;
    for (uint32_t m = 0; m < 4; ++m) {
      uint32_t word = 0;
      for (uint32_t i = 0; i < 2; ++i) {
        const uint32_t value = kTransposed ? matrix_element(arguments, m, column + i, row)
                                           : matrix_element(arguments, m, row, column + i);
        word |= value << (16 * i);
      }
      static_cast<MatrixRows*>(arguments[lane])->words[m] = word;
    }
  }
}

void copy_now(const Block::PendingCopy& copy) {
  std::memset(copy.to, 0, 16);
  std::memcpy(copy.to, copy.from, copy.n_bytes);
}

}  // namespace

void mma_f16(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  mma<F16>(c, a, b);
}
void mma_bf16(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  mma<BF16>(c, a, b);
}
void mma_s8_32(int32_t (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], uint32_t start) {
  std::fill_n(c, 4, static_cast<int32_t>(start));
  mma<S8>(c, a, b);
}
void mma_s8_16(int32_t (&c)[4], const uint32_t (&a)[2], uint32_t b, uint32_t start) {
  mma_s8_32(c, {a[0], a[1], 0, 0}, {b, 0}, start);
}

void load_matrices(uint32_t (&m)[4], const void* row) {
  MatrixRows rows{row, m};
  Block::current().wait_for_warp(0xffffffffu, "ldmatrix", distribute<false>, &rows);
}
void load_matrices_transposed(uint32_t (&m)[4], const void* row) {
  MatrixRows rows{row, m};
  Block::current().wait_for_warp(0xffffffffu, "ldmatrix.trans", distribute<true>, &rows);
}

// At the earliest or, in forward order, at the latest moment that the instruction allows: a missing
// wait and a buffer written too soon both show.
void copy_async(void* shared, const void* global, uint32_t n_bytes) {
  Block& block = Block::current();
  const Block::PendingCopy copy{shared, global, n_bytes, block.copy_group()};
  if (block.order() == emulator::Order::kForward) {
    block.pending_copies().push_back(copy);
  } else {
    copy_now(copy);
  }
}
void close_copies() {
  ++Block::current().copy_group();
}
void wait_for_copies_but(uint32_t n_pending) {
  auto& copies = Block::current().pending_copies();
  const uint32_t open = Block::current().copy_group();
  std::erase_if(copies, [&](const Block::PendingCopy& copy) {
    const bool is_due = copy.group + n_pending < open;
    if (is_due) copy_now(copy);
    return is_due;
  });
}

}  // namespace bp::cuda
