#pragma once
// Which rows take which of several matrices. Each row has n_groups pairs (row, group), counted row
// by row, and each pair takes one matrix; pairs are sorted by matrix, so that a matrix in use is
// read once and others are not.

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace bp::cpu {

// Sorted pairs [first, first + n), of one matrix.
struct RowChunk {
  uint32_t matrix;
  uint32_t first, n;
};

// A view of memory that the caller owns.
class RowsByMatrix {
 public:
  [[nodiscard]] static size_t bytes(uint32_t n_matrices, uint32_t n_pairs, uint32_t chunk_rows) {
    const size_t n_chunks = size_t{n_matrices} + n_pairs / chunk_rows;
    return (size_t{n_matrices} + 2 + n_pairs) * sizeof(uint32_t) + n_chunks * sizeof(RowChunk);
  }

  // memory: bytes(n_matrices, n_pairs, ...), aligned to 4.
  RowsByMatrix(uint8_t* memory, uint32_t n_matrices, uint32_t n_pairs)
      : n_matrices_(n_matrices), n_pairs_(n_pairs) {
    n_chunks_ = reinterpret_cast<uint32_t*>(memory);
    begin_of_ = n_chunks_ + 1;
    pairs_ = begin_of_ + n_matrices + 1;
    chunks_ = reinterpret_cast<RowChunk*>(pairs_ + n_pairs);
  }

  // matrix_of(pair) < n_matrices. Pairs of a matrix stay in order, and are cut into chunks of
  // chunk_rows, the last perhaps shorter.
  template <class F>
  void sort(uint32_t chunk_rows, F&& matrix_of) {
    std::fill_n(begin_of_, n_matrices_ + 1, 0u);
    for (uint32_t p = 0; p < n_pairs_; ++p) ++begin_of_[matrix_of(p)];
    for (uint32_t m = 1; m <= n_matrices_; ++m) begin_of_[m] += begin_of_[m - 1];
    // From behind, so that each entry ends as the begin of its matrix.
    for (uint32_t p = n_pairs_; p-- > 0;) pairs_[--begin_of_[matrix_of(p)]] = p;
    cut(chunk_rows);
  }

  [[nodiscard]] uint32_t n_chunks() const { return *n_chunks_; }
  // In ascending order of matrices.
  [[nodiscard]] const RowChunk& chunk(uint32_t i) const { return chunks_[i]; }
  [[nodiscard]] uint32_t begin_of(uint32_t matrix) const { return begin_of_[matrix]; }
  [[nodiscard]] uint32_t n_of(uint32_t matrix) const {
    return begin_of_[matrix + 1] - begin_of_[matrix];
  }
  [[nodiscard]] uint32_t pair(uint32_t sorted) const { return pairs_[sorted]; }

 private:
  void cut(uint32_t chunk_rows) {
    uint32_t n = 0;
    for (uint32_t m = 0; m < n_matrices_; ++m) {
      for (uint32_t first = begin_of_[m]; first < begin_of_[m + 1]; first += chunk_rows) {
        chunks_[n++] = {m, first, std::min(chunk_rows, begin_of_[m + 1] - first)};
      }
    }
    *n_chunks_ = n;
  }

  uint32_t n_matrices_, n_pairs_;
  uint32_t* n_chunks_;
  uint32_t* begin_of_;  // [n_matrices + 1], into pairs
  uint32_t* pairs_;     // [n_pairs]
  RowChunk* chunks_;
};

}  // namespace bp::cpu
