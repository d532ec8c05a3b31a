#pragma once
// Names the test that runs in this process when a signal ends it: a crash, its own time, or the
// end of the time of all tests.

#include <chrono>
#include <string>

namespace bp::bench {

class CurrentTest {
 public:
  // `name` outlives this. One at a time.
  CurrentTest(const std::string& name, std::chrono::milliseconds timeout);
  ~CurrentTest();
  CurrentTest(const CurrentTest&) = delete;
  CurrentTest& operator=(const CurrentTest&) = delete;
};

}  // namespace bp::bench
