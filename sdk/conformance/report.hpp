#pragma once
// What the tool prints: one line per test as it ends, or one JSON document at the end.

#include <string>
#include <vector>

#include "sdk/conformance/runner.hpp"

namespace bp::conformance {

enum class Format { kText, kJson };

class Report {
 public:
  Report(std::string plugin, Format format, bool only_failed);

  void add(const Test& test, const TestResult& result);

  // Prints the sum; the exit code of the program: 0 only if tests ran and none failed.
  [[nodiscard]] int finish() const;

 private:
  struct Line {
    std::string name, level, status, message;
  };

  void print(const Test& test, const TestResult& result) const;
  void print_json() const;
  void print_sum() const;
  [[nodiscard]] size_t count(Outcome outcome) const { return counts_[static_cast<int>(outcome)]; }

  std::string plugin_;
  Format format_;
  bool only_failed_;
  size_t counts_[3] = {};
  std::vector<Line> lines_;
};

// The tests' names and descriptions.
void print_list(const std::string& plugin, const Tests& tests, Format format);

}  // namespace bp::conformance
