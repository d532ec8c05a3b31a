// backplane-conform for a backend on a machine without packages: the levels that need no server.
// usage: conform PLUGIN.plugin.yaml [KEY=VALUE ...] [LEVEL ...] [--time-scale N]

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "sdk/conformance/levels/levels.hpp"
#include "sdk/conformance/runner.hpp"
#include "sdk/conformance/subject.hpp"

namespace {

using namespace bp::conformance;

struct NamedLevel {
  const char* name;
  void (*add)(Subject& subject, Tests& tests);
};
constexpr NamedLevel kLevels[] = {
    {"load", add_load_tests},       {"abi", add_abi_tests},     {"life", add_life_tests},
    {"ops", add_ops_tests},         {"steps", add_steps_tests}, {"errors", add_errors_tests},
    {"threads", add_threads_tests},
};

Tests chosen_tests(Subject& subject, const std::vector<std::string>& levels) {
  Tests tests;
  for (const NamedLevel& level : kLevels) {
    const bool is_wanted =
        levels.empty() || std::find(levels.begin(), levels.end(), level.name) != levels.end();
    if (is_wanted) level.add(subject, tests);
  }
  return tests;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return std::fprintf(stderr, "usage: conform PLUGIN.plugin.yaml ...\n"), 2;
  Options options;
  std::vector<std::string> levels;
  double time_scale = 1;
  for (int i = 2; i < argc; ++i) {
    if (std::strcmp(argv[i], "--time-scale") == 0 && i + 1 < argc) {
      time_scale = std::atof(argv[++i]);
    } else if (std::strchr(argv[i], '=') != nullptr) {
      options.set.emplace_back(argv[i]);
    } else {
      levels.emplace_back(argv[i]);
    }
  }
  auto subject = Subject::open(argv[1], options);
  if (!subject.ok()) {
    std::fprintf(stderr, "error: %s\n", subject.status().message().c_str());
    return 1;
  }
  uint32_t counts[3] = {};
  for (Test& test : chosen_tests(**subject, levels)) {
    test.timeout = std::chrono::milliseconds(
        static_cast<int64_t>(static_cast<double>(test.timeout.count()) * time_scale));
    const TestResult result = run_apart(test, **subject);
    ++counts[static_cast<int>(result.outcome)];
    if (result.outcome == Outcome::kPass) continue;
    std::printf("%s  %s  (%.2f s): %s\n", result.outcome == Outcome::kFail ? "fail" : "skip",
                test.name.c_str(), result.seconds, result.message.c_str());
    std::fflush(stdout);
  }
  std::printf("%u passed, %u failed, %u skipped\n", counts[0], counts[1], counts[2]);
  return counts[0] > 0 && counts[1] == 0 ? 0 : 1;
}
