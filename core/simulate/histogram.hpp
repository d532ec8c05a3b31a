#pragma once
// Percentiles of any number of samples in bounded memory, each within 1/512 of its value.

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

namespace bp::simulate {

// Every power of two is cut into 256 equal buckets; samples below 512 are exact.
class Histogram {
 public:
  void add(uint64_t value) {
    const size_t bucket = bucket_of(value);
    if (bucket >= counts_.size()) counts_.resize(bucket + 1, 0);
    ++counts_[bucket];
    ++n_;
    sum_ += value;
    max_ = std::max(max_, value);
  }

  [[nodiscard]] uint64_t count() const { return n_; }
  [[nodiscard]] uint64_t max() const { return max_; }
  [[nodiscard]] double mean() const {
    return n_ == 0 ? 0 : static_cast<double>(sum_) / static_cast<double>(n_);
  }
  // The smallest sample that at least the fraction q of all do not exceed; 0 without samples.
  [[nodiscard]] double quantile(double q) const {
    const double wanted = q * static_cast<double>(n_);
    uint64_t seen = 0;
    for (size_t bucket = 0; bucket < counts_.size(); ++bucket) {
      seen += counts_[bucket];
      if (counts_[bucket] > 0 && static_cast<double>(seen) >= wanted) {
        return std::min(middle_of(bucket), static_cast<double>(max_));
      }
    }
    return static_cast<double>(max_);
  }

 private:
  static constexpr int kBits = 8;

  static size_t bucket_of(uint64_t value) {
    const int shift = std::max(0, static_cast<int>(std::bit_width(value)) - kBits - 1);
    return (static_cast<size_t>(shift) << kBits) + static_cast<size_t>(value >> shift);
  }
  static double middle_of(size_t bucket) {
    if (bucket < (size_t{2} << kBits)) return static_cast<double>(bucket);
    const size_t shift = (bucket >> kBits) - 1;
    const uint64_t first = ((bucket & ((1u << kBits) - 1)) + (1u << kBits)) << shift;
    return static_cast<double>(first) + static_cast<double>((uint64_t{1} << shift) - 1) / 2;
  }

  std::vector<uint64_t> counts_;
  uint64_t n_ = 0;
  uint64_t sum_ = 0;
  uint64_t max_ = 0;
};

}  // namespace bp::simulate
