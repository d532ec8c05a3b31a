#pragma once
// Progress as it is reported, which asks to stop after so many reports.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "backplane/host.h"
#include "backplane/plugin.hpp"

namespace bp::testing {

struct ProgressLog {
  ProgressLog() : progress(make_growable<bp_progress>()) {
    progress.user = this;
    progress.report = [](void* user, uint64_t n_done, uint64_t of_all) -> int32_t {
      auto& self = *static_cast<ProgressLog*>(user);
      self.done.push_back(n_done);
      self.total = of_all;
      return self.done.size() >= self.n_wanted ? 1 : 0;
    };
  }
  ProgressLog(const ProgressLog&) = delete;

  [[nodiscard]] const bp_progress* c() const { return &progress; }

  size_t n_wanted = SIZE_MAX;  // reports
  std::vector<uint64_t> done;
  uint64_t total = 0;
  bp_progress progress;
};

}  // namespace bp::testing
