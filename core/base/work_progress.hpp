#pragma once
// How far long work is, told to whoever waits for it and may want it to stop.

#include <algorithm>
#include <cstdint>

#include "backplane/host.h"
#include "backplane/status.hpp"

namespace bp::base {

class WorkProgress {
 public:
  // progress may be null; `total` in any unit.
  WorkProgress(const bp_progress* progress, uint64_t total) : progress_(progress), total_(total) {}

  // n more are done. kCancelled where the work is to stop. On the thread that the work began on.
  Status add(uint64_t n) {
    done_ += n;
    if (progress_ == nullptr) return {};
    const bool stops = progress_->report(progress_->user, std::min(done_, total_), total_) != 0;
    return stops ? cancelled("stopped") : Status();
  }

 private:
  const bp_progress* progress_;
  uint64_t total_;
  uint64_t done_ = 0;
};

}  // namespace bp::base
