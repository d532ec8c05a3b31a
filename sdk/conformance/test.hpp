#pragma once
// What a conformance test is, and how it ends: it returns (pass), or throws Failure or Skip.

#include <chrono>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

namespace bp::conformance {

class Subject;

// The message names the fault: what was called, what came, what should have come.
struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The message says what is missing for the test to run.
struct Skip : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Fails with the message unless the condition holds.
inline void require(bool condition, const std::string& message) {
  if (!condition) throw Failure(message);
}

struct Test {
  std::string name;         // kebab-case, stable, unique: "steps-chunked-prefill"
  std::string level;        // "load", "abi", "life", "ops", ...
  std::string description;  // one sentence that says what must hold
  std::function<void(Subject&)> body;
  std::chrono::milliseconds timeout{60'000};
};

using Tests = std::vector<Test>;

}  // namespace bp::conformance
