#pragma once
// Rows for a backend to write, with a pattern in them and around them: what it left out and what it
// wrote beyond is seen afterwards.

#include <algorithm>
#include <bit>
#include <cstdint>
#include <string>
#include <vector>

namespace bp::conformance {

class GuardedRows {
 public:
  GuardedRows(uint64_t n_rows, uint64_t width)
      : n_rows_(n_rows), width_(width), words_(kEdge + n_rows * (width + kGap) + kEdge, kPattern) {}

  [[nodiscard]] void* data() { return words_.data() + kEdge; }
  [[nodiscard]] uint64_t row_stride_bytes() const { return (width_ + kGap) * sizeof(uint32_t); }
  [[nodiscard]] uint64_t width() const { return width_; }

  [[nodiscard]] std::vector<float> row(uint64_t r) const {
    std::vector<float> values(width_);
    for (uint64_t c = 0; c < width_; ++c) values[c] = std::bit_cast<float>(word(r, c));
    return values;
  }
  [[nodiscard]] std::vector<float> rows() const {
    std::vector<float> values;
    for (uint64_t r = 0; r < n_rows_; ++r) {
      const std::vector<float> one = row(r);
      values.insert(values.end(), one.begin(), one.end());
    }
    return values;
  }
  [[nodiscard]] bool is_untouched(uint64_t r) const {
    for (uint64_t c = 0; c < width_; ++c) {
      if (word(r, c) != kPattern) return false;
    }
    return true;
  }

  // "" or the first value of row r that was not written.
  [[nodiscard]] std::string unwritten(uint64_t r) const {
    for (uint64_t c = 0; c < width_; ++c) {
      if (word(r, c) != kPattern) continue;
      if (is_untouched(r)) return "row " + std::to_string(r) + " was not written";
      return "row " + std::to_string(r) + " was not written from column " + std::to_string(c) +
             " of " + std::to_string(width_) + " on";
    }
    return {};
  }
  // "" or the first write outside the rows.
  [[nodiscard]] std::string overwritten() const {
    const auto differs = [](uint32_t word) { return word != kPattern; };
    if (std::any_of(words_.begin(), words_.begin() + kEdge, differs)) {
      return "it wrote before row 0";
    }
    for (uint64_t r = 0; r < n_rows_; ++r) {
      const uint64_t gap = r + 1 < n_rows_ ? kGap : kGap + kEdge;
      for (uint64_t c = width_; c < width_ + gap; ++c) {
        if (word(r, c) == kPattern) continue;
        return "it wrote past the end of row " + std::to_string(r) + ": at column " +
               std::to_string(c) + " of " + std::to_string(width_);
      }
    }
    return {};
  }

 private:
  static constexpr uint64_t kEdge = 64, kGap = 16;
  static constexpr uint32_t kPattern = 0x7fa5c3e1u;  // a signalling NaN that no computation gives

  [[nodiscard]] uint32_t word(uint64_t r, uint64_t c) const {
    return words_[kEdge + r * (width_ + kGap) + c];
  }

  uint64_t n_rows_, width_;
  std::vector<uint32_t> words_;
};

}  // namespace bp::conformance
