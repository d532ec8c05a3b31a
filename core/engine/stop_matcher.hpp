#pragma once
// Ends a text before the stop string that is complete first, the longest of several that end there,
// wherever token borders fall.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace bp::engine {

class StopMatcher {
 public:
  // None of the strings is empty.
  explicit StopMatcher(std::vector<std::string> stops) : stops_(std::move(stops)) {}

  // Takes the next piece of text and answers what is certain to stand before any stop string. The
  // rest is held back while a stop string may be starting in it. After a match nothing follows.
  std::string push(std::string_view text);
  // The text held back, when the answer ends without a stop string.
  std::string flush();
  // The stop string that was found.
  [[nodiscard]] const std::optional<std::string>& found() const { return found_; }

 private:
  std::vector<std::string> stops_;
  std::string held_;
  std::optional<std::string> found_;
};

}  // namespace bp::engine
