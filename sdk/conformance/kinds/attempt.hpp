#pragma once
// One of thousands of attempts: where the plugin crashes or hangs in it, the test's output says
// which one it was.

#include <string>

namespace bp::conformance {

class Attempt {
 public:
  // The plugin has `seconds` for it; 0: as long as the test has.
  explicit Attempt(const std::string& what, unsigned seconds = 30);
  ~Attempt();
  Attempt(const Attempt&) = delete;
  Attempt& operator=(const Attempt&) = delete;

 private:
  bool is_timed_;
};

}  // namespace bp::conformance
