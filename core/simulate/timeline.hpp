#pragma once
// Load over time, in at most kMostBuckets buckets of equal length, whatever the length of a run.

#include <cstddef>
#include <cstdint>
#include <vector>

namespace bp::simulate {

struct Load {
  double running = 0;  // sequences
  double waiting = 0;  // requests, those before the door included
  double used_blocks = 0;
  double tokens = 0;  // computed
};

class Timeline {
 public:
  static constexpr size_t kMostBuckets = 1024;

  // `load` held from begin_us to end_us; its tokens were computed meanwhile. In order of time.
  void add(uint64_t begin_us, uint64_t end_us, const Load& load);

  [[nodiscard]] uint64_t bucket_us() const { return bucket_us_; }
  // Means over each bucket; tokens are per second.
  [[nodiscard]] std::vector<Load> means() const;

 private:
  void make_room_for(uint64_t end_us);

  uint64_t bucket_us_ = 1000;
  std::vector<Load> sums_;  // over time in microseconds; tokens counted
};

}  // namespace bp::simulate
