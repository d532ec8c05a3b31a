#pragma once
// Progress of long work on standard error: a bar on a terminal, a few plain lines
// elsewhere if it takes some seconds.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>

#include "backplane/host.h"

namespace bp::cli {

class ProgressBar {
 public:
  // `stop` (may be null): the work is asked to end once it is true.
  explicit ProgressBar(std::string title, const std::atomic<bool>* stop = nullptr);
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  [[nodiscard]] const bp_progress* c() const { return &progress_; }
  void clear();  // before other lines are printed

 private:
  static int32_t report(void* user, uint64_t done, uint64_t total);
  void show(int percent);

  std::string title_;
  const std::atomic<bool>* stop_;
  bool on_terminal_;
  int shown_ = -1;                                                                 // percent
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();  // plain line
  bp_progress progress_;
};

}  // namespace bp::cli
