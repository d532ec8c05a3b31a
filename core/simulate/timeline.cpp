#include "core/simulate/timeline.hpp"

#include <algorithm>

namespace bp::simulate {

namespace {

void add_to(Load& sum, const Load& load, double weight, double tokens) {
  sum.running += load.running * weight;
  sum.waiting += load.waiting * weight;
  sum.used_blocks += load.used_blocks * weight;
  sum.tokens += tokens;
}

}  // namespace

void Timeline::make_room_for(uint64_t end_us) {
  while (end_us > bucket_us_ * kMostBuckets) {
    bucket_us_ *= 2;
    const size_t n = (sums_.size() + 1) / 2;
    for (size_t i = 0; i < n; ++i) {
      Load sum = sums_[2 * i];
      if (2 * i + 1 < sums_.size()) add_to(sum, sums_[2 * i + 1], 1, sums_[2 * i + 1].tokens);
      sums_[i] = sum;
    }
    sums_.resize(n);
  }
  const size_t needed = static_cast<size_t>((end_us + bucket_us_ - 1) / bucket_us_);
  if (needed > sums_.size()) sums_.resize(needed);
}

void Timeline::add(uint64_t begin_us, uint64_t end_us, const Load& load) {
  if (end_us <= begin_us) return;
  make_room_for(end_us);
  const auto whole = static_cast<double>(end_us - begin_us);
  for (uint64_t at = begin_us; at < end_us;) {
    const uint64_t bucket = at / bucket_us_;
    const uint64_t next = std::min(end_us, (bucket + 1) * bucket_us_);
    const auto part = static_cast<double>(next - at);
    add_to(sums_[static_cast<size_t>(bucket)], load, part, load.tokens * part / whole);
    at = next;
  }
}

std::vector<Load> Timeline::means() const {
  std::vector<Load> means = sums_;
  const auto length = static_cast<double>(bucket_us_);
  for (Load& m : means) {
    m = {m.running / length, m.waiting / length, m.used_blocks / length, m.tokens / length * 1e6};
  }
  return means;
}

}  // namespace bp::simulate
