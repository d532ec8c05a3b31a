#pragma once
// Exact percentiles of samples that all are at hand.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

namespace bp::simulate {

class SortedSamples {
 public:
  explicit SortedSamples(std::vector<uint64_t> samples) : sorted_(std::move(samples)) {
    std::ranges::sort(sorted_);
  }

  [[nodiscard]] uint64_t count() const { return sorted_.size(); }
  [[nodiscard]] uint64_t max() const { return sorted_.empty() ? 0 : sorted_.back(); }
  [[nodiscard]] double mean() const {
    if (sorted_.empty()) return 0;
    return std::accumulate(sorted_.begin(), sorted_.end(), 0.0) /
           static_cast<double>(sorted_.size());
  }
  // The smallest sample that at least the fraction q of all do not exceed; 0 without samples.
  [[nodiscard]] double quantile(double q) const {
    if (sorted_.empty()) return 0;
    const double rank = std::ceil(q * static_cast<double>(sorted_.size()));
    const double index = std::clamp(rank - 1, 0.0, static_cast<double>(sorted_.size() - 1));
    return static_cast<double>(sorted_[static_cast<size_t>(index)]);
  }

 private:
  std::vector<uint64_t> sorted_;
};

}  // namespace bp::simulate
