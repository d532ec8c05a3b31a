#include "sdk/conformance/report.hpp"

#include <cstdio>
#include <nlohmann/json.hpp>

namespace bp::conformance {

namespace {

using Json = nlohmann::ordered_json;

const char* status_name(Outcome outcome) {
  constexpr const char* names[] = {"pass", "fail", "skip"};
  return names[static_cast<int>(outcome)];
}

// Messages may quote bytes of a plugin that are no UTF-8.
std::string dump(const Json& json) {
  return json.dump(1, ' ', false, Json::error_handler_t::replace);
}

std::string indented(const std::string& text) {
  std::string out = "      ";
  for (const char c : text) {
    out += c;
    if (c == '\n') out += "      ";
  }
  return out;
}

}  // namespace

Report::Report(std::string plugin, Format format, bool only_failed)
    : plugin_(std::move(plugin)), format_(format), only_failed_(only_failed) {}

void Report::add(const Test& test, const TestResult& result) {
  ++counts_[static_cast<int>(result.outcome)];
  if (only_failed_ && result.outcome != Outcome::kFail) return;
  if (format_ == Format::kText) return print(test, result);
  lines_.push_back({test.name, test.level, status_name(result.outcome), result.message});
}

void Report::print(const Test& test, const TestResult& result) const {
  std::printf("%s  %s  (%.2f s)\n", status_name(result.outcome), test.name.c_str(), result.seconds);
  if (result.outcome == Outcome::kFail) {
    std::printf("      must hold: %s\n", test.description.c_str());
  }
  if (result.outcome != Outcome::kPass) std::printf("%s\n", indented(result.message).c_str());
  std::fflush(stdout);
}

int Report::finish() const {
  if (format_ == Format::kJson) {
    print_json();
  } else {
    print_sum();
  }
  const bool ran = count(Outcome::kPass) + count(Outcome::kFail) > 0;
  if (!ran) std::fprintf(stderr, "error: no test was executed\n");
  return ran && count(Outcome::kFail) == 0 ? 0 : 1;
}

void Report::print_sum() const {
  std::printf("%s: %zu passed, %zu failed, %zu skipped\n", plugin_.c_str(), count(Outcome::kPass),
              count(Outcome::kFail), count(Outcome::kSkip));
}

void Report::print_json() const {
  Json tests = Json::array();
  for (const Line& line : lines_) {
    tests.push_back({{"name", line.name},
                     {"level", line.level},
                     {"status", line.status},
                     {"message", line.message}});
  }
  std::printf("%s\n", dump({{"plugin", plugin_}, {"tests", tests}}).c_str());
}

void print_list(const std::string& plugin, const Tests& tests, Format format) {
  Json list = Json::array();
  for (const Test& test : tests) {
    if (format == Format::kText) {
      std::printf("%s  (%s)\n      %s\n", test.name.c_str(), test.level.c_str(),
                  test.description.c_str());
    }
    list.push_back({{"name", test.name}, {"level", test.level}, {"description", test.description}});
  }
  if (format == Format::kJson) {
    std::printf("%s\n", dump({{"plugin", plugin}, {"tests", list}}).c_str());
  }
}

}  // namespace bp::conformance
