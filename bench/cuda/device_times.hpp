#pragma once
// How long the device took for each step, as a backend logs it: the cuda backend does with
// step_times=true.

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "backplane/plugin.hpp"

namespace bp::bench {

inline double median_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

class DeviceTimes {
 public:
  DeviceTimes() : host_(make_growable<bp_host>()) {
    host_.user = this;
    host_.log = [](void* user, uint32_t level, bp_str message) {
      static_cast<DeviceTimes*>(user)->take(level, std::string(view(message)));
    };
  }
  DeviceTimes(const DeviceTimes&) = delete;
  DeviceTimes& operator=(const DeviceTimes&) = delete;

  [[nodiscard]] const bp_host& host() const { return host_; }
  void forget() { us_.clear(); }
  // Of the last n steps; 0 where the backend does not tell.
  [[nodiscard]] double median_us(size_t n) const {
    if (us_.empty()) return 0;
    return median_of({us_.end() - static_cast<std::ptrdiff_t>(std::min(n, us_.size())), us_.end()});
  }

 private:
  void take(uint32_t level, const std::string& message) {
    double us = 0;
    const size_t at = message.find(" took ");
    if (at != std::string::npos &&
        std::sscanf(message.c_str() + at, " took %lf us on the device", &us) == 1) {
      us_.push_back(us);
    } else if (level != BP_LOG_DEBUG) {
      std::printf("%s\n", message.c_str());
    }
  }

  bp_host host_;
  std::vector<double> us_;
};

}  // namespace bp::bench
