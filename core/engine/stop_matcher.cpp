#include "core/engine/stop_matcher.hpp"

#include <algorithm>
#include <utility>

namespace bp::engine {

namespace {

// Length of the longest end of `text` that is a beginning of `stop`, but not all of it.
size_t overlap(std::string_view text, std::string_view stop) {
  size_t n = std::min(text.size(), stop.size() - 1);
  while (n > 0 && text.substr(text.size() - n) != stop.substr(0, n)) --n;
  return n;
}

}  // namespace

std::string StopMatcher::push(std::string_view text) {
  if (found_) return {};
  held_ += text;
  size_t first = std::string::npos, first_end = std::string::npos;
  for (const std::string& stop : stops_) {
    const size_t at = held_.find(stop);
    if (at == std::string::npos) continue;
    const size_t end = at + stop.size();
    if (end > first_end || (end == first_end && at >= first)) continue;
    first = at;
    first_end = end;
    found_ = stop;
  }
  if (found_) {
    held_.resize(first);
    return std::exchange(held_, {});
  }
  size_t n_held = 0;
  for (const std::string& stop : stops_) n_held = std::max(n_held, overlap(held_, stop));
  std::string sure = held_.substr(0, held_.size() - n_held);
  held_.erase(0, sure.size());
  return sure;
}

std::string StopMatcher::flush() {
  return std::exchange(held_, {});
}

}  // namespace bp::engine
