#include "core/cli/progress.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "backplane/plugin.hpp"

namespace bp::cli {

namespace {
constexpr int kBarWidth = 40;
constexpr int kPlainStep = 25;                         // percent between plain lines
constexpr auto kPlainPause = std::chrono::seconds(2);  // before and between them
}  // namespace

ProgressBar::ProgressBar(std::string title, const std::atomic<bool>* stop)
    : title_(std::move(title)),
      stop_(stop),
      on_terminal_(::isatty(STDERR_FILENO) == 1),
      progress_(make_growable<bp_progress>()) {
  progress_.user = this;
  progress_.report = report;
}

ProgressBar::~ProgressBar() {
  clear();
}

void ProgressBar::clear() {
  if (on_terminal_ && shown_ >= 0) std::fputs("\r\033[K", stderr);
  shown_ = -1;
}

int32_t ProgressBar::report(void* user, uint64_t done, uint64_t total) {
  auto& self = *static_cast<ProgressBar*>(user);
  const double share = total == 0 ? 1.0 : static_cast<double>(done) / static_cast<double>(total);
  self.show(static_cast<int>(100 * std::min(share, 1.0)));
  return self.stop_ != nullptr && self.stop_->load() ? 1 : 0;
}

void ProgressBar::show(int percent) {
  if (on_terminal_) {
    if (percent == shown_) return;
    const int full = percent * kBarWidth / 100;
    std::fprintf(stderr, "\r%s [%.*s%*s] %3d %%", title_.c_str(), full,
                 "########################################", kBarWidth - full, "", percent);
  } else {
    const auto now = std::chrono::steady_clock::now();
    if (percent / kPlainStep == shown_ / kPlainStep || now - last_ < kPlainPause) return;
    last_ = now;
    std::fprintf(stderr, "%s: %d %%\n", title_.c_str(), percent);
  }
  shown_ = percent;
}

}  // namespace bp::cli
