// backplane-conform for a backend on a machine without packages: the levels that need no server.
// usage: conform PLUGIN.plugin.yaml [KEY=VALUE ...] [LEVEL ...] [--time-scale N] [--in-process]
//        [--shard I/N] [--list]
// --in-process: one process and one context of the device for all tests, as sanitizers want it; the
// test that a crash or a hang ends is named, and the rest does not run.
// --shard I/N: every Nth test from the Ith on, I from 1.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "bench/cuda/current_test.hpp"
#include "sdk/conformance/levels/levels.hpp"
#include "sdk/conformance/runner.hpp"
#include "sdk/conformance/subject.hpp"

namespace {

using namespace bp::conformance;

// A device that is lost fails all that follow.
constexpr uint32_t kMaxFailuresInARow = 10;

struct NamedLevel {
  const char* name;
  void (*add)(Subject& subject, Tests& tests);
};
constexpr NamedLevel kLevels[] = {
    {"load", add_load_tests},       {"abi", add_abi_tests},     {"life", add_life_tests},
    {"ops", add_ops_tests},         {"steps", add_steps_tests}, {"errors", add_errors_tests},
    {"threads", add_threads_tests},
};

struct Arguments {
  Options options;
  std::vector<std::string> levels;
  double time_scale = 1;
  unsigned shard = 1, n_shards = 1;
  bool in_process = false, list = false;
};

int fail(const std::string& wrong) {
  std::fprintf(stderr, "conform: %s\n", wrong.c_str());
  return 2;
}

bool is_level(const std::string& name) {
  return std::any_of(std::begin(kLevels), std::end(kLevels),
                     [&](const NamedLevel& level) { return level.name == name; });
}

// What is wrong with the command line, or "".
std::string parse(const std::vector<std::string>& words, Arguments& out) {
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word == "--in-process") {
      out.in_process = true;
    } else if (word == "--list") {
      out.list = true;
    } else if (word == "--time-scale" && i + 1 < words.size()) {
      out.time_scale = std::atof(words[++i].c_str());
    } else if (word == "--shard" && i + 1 < words.size()) {
      const int n = std::sscanf(words[++i].c_str(), "%u/%u", &out.shard, &out.n_shards);
      if (n != 2 || out.shard < 1 || out.shard > out.n_shards) return words[i] + " is no shard";
    } else if (word.find('=') != std::string::npos) {
      out.options.set.push_back(word);
    } else if (is_level(word)) {
      out.levels.push_back(word);
    } else {
      return "\"" + word + "\" is no level";
    }
  }
  return out.time_scale > 0 ? "" : "--time-scale must be above 0";
}

Tests chosen_tests(Subject& subject, const Arguments& arguments) {
  const auto& levels = arguments.levels;
  Tests tests, chosen;
  for (const NamedLevel& level : kLevels) {
    const bool is_wanted =
        levels.empty() || std::find(levels.begin(), levels.end(), level.name) != levels.end();
    if (is_wanted) level.add(subject, tests);
  }
  for (size_t i = arguments.shard - 1; i < tests.size(); i += arguments.n_shards) {
    Test& test = chosen.emplace_back(std::move(tests[i]));
    test.timeout = std::chrono::milliseconds(
        static_cast<int64_t>(static_cast<double>(test.timeout.count()) * arguments.time_scale));
  }
  return chosen;
}

TestResult run_named(const Test& test, Subject& subject) {
  const bp::bench::CurrentTest current(test.name, test.timeout);
  return run_here(test, subject);
}

void print(const Test& test, const TestResult& result, bool passes_too) {
  constexpr const char* outcomes[] = {"pass", "fail", "skip"};
  if (result.outcome == Outcome::kPass && !passes_too) return;
  std::printf("%s  %s  (%.2f s)%s%s\n", outcomes[static_cast<int>(result.outcome)],
              test.name.c_str(), result.seconds, result.message.empty() ? "" : ": ",
              result.message.c_str());
  std::fflush(stdout);
}

int run(Subject& subject, const Tests& tests, bool in_process) {
  uint32_t counts[3] = {}, n_failures_in_a_row = 0, n_done = 0;
  for (const Test& test : tests) {
    const TestResult result = in_process ? run_named(test, subject) : run_apart(test, subject);
    ++n_done;
    ++counts[static_cast<int>(result.outcome)];
    // What a sanitizer writes stands between the lines of the tests.
    print(test, result, in_process);
    n_failures_in_a_row = result.outcome == Outcome::kFail ? n_failures_in_a_row + 1 : 0;
    if (in_process && n_failures_in_a_row == kMaxFailuresInARow) break;
  }
  std::printf("%u passed, %u failed, %u skipped, %zu did not run\n", counts[0], counts[1],
              counts[2], tests.size() - n_done);
  return counts[0] > 0 && counts[1] == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return fail("PLUGIN.plugin.yaml is needed");
  Arguments arguments;
  const std::string wrong = parse({argv + 2, argv + argc}, arguments);
  if (!wrong.empty()) return fail(wrong);
  auto subject = Subject::open(argv[1], arguments.options);
  if (!subject.ok()) return fail(subject.status().message());
  const Tests tests = chosen_tests(**subject, arguments);
  if (!arguments.list) return run(**subject, tests, arguments.in_process);
  for (const Test& test : tests) std::printf("%s\n", test.name.c_str());
  return 0;
}
