#include "core/engine/stats.hpp"

#include <algorithm>
#include <cassert>

namespace bp::engine {

Histogram::Histogram(std::span<const double> bounds) : bounds_(bounds) {
  assert(bounds.size() <= kMaxBounds);
}

void Histogram::observe(double value) {
  const auto bucket = std::ranges::lower_bound(bounds_, value) - bounds_.begin();
  auto& count = counts_[static_cast<size_t>(bucket)];
  count.store(count.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  sum_.store(sum_.load(std::memory_order_relaxed) + value, std::memory_order_relaxed);
}

Histogram::Reading Histogram::read() const {
  Reading reading;
  reading.bounds = bounds_;
  for (size_t i = 0; i <= bounds_.size(); ++i) {
    reading.counts.push_back(counts_[i].load(std::memory_order_relaxed));
  }
  reading.sum = sum_.load(std::memory_order_relaxed);
  return reading;
}

std::span<const double> latency_bounds() {
  static constexpr std::array kBounds = {0.005, 0.01, 0.02, 0.05, 0.1, 0.2,  0.5,  1.0,
                                         2.0,   5.0,  10.0, 20.0, 50., 100., 200., 500.};
  return kBounds;
}

std::span<const double> short_latency_bounds() {
  static constexpr std::array kBounds = {0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02,
                                         0.05,   0.1,    0.2,    0.5,   1.0,   2.0,   5.0};
  return kBounds;
}

std::span<const double> token_bounds() {
  static constexpr std::array kBounds = {1.,    2.,    4.,     8.,     16.,   32.,
                                         64.,   128.,  256.,   512.,   1024., 2048.,
                                         4096., 8192., 16384., 32768., 65536.};
  return kBounds;
}

}  // namespace bp::engine
