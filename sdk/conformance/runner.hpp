#pragma once
// Runs tests, each in a process of its own, so that a crash or a hang is a failure of that test.

#include <functional>
#include <string>

#include "sdk/conformance/test.hpp"

namespace bp::conformance {

enum class Outcome { kPass, kFail, kSkip };

struct TestResult {
  Outcome outcome = Outcome::kPass;
  std::string message;  // of a failure (then with what the test printed) or a skip
  double seconds = 0;
};

// In a forked process, which a crash, an exit or the test's timeout ends.
[[nodiscard]] TestResult run_apart(const Test& test, Subject& subject);

// In this process, for debuggers.
[[nodiscard]] TestResult run_here(const Test& test, Subject& subject);

}  // namespace bp::conformance
