#pragma once
// "ttft_ms.p99 <= 500": what a trace says of the report of a good scheduler.

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "backplane/status.hpp"

namespace bp::simulate {

struct Expectation {
  std::string text;
  std::string plugin;      // the scheduler it is about; empty: every one
  std::string metric;      // dotted path in the report
  std::string comparison;  // <= >= < > ==
  std::string other;       // a metric too, or empty
  double bound = 0;        // where `other` is empty
};

// "METRIC COMPARISON NUMBER-OR-METRIC".
Result<Expectation> parse_expectation(const std::string& text, const std::string& plugin);

// A sentence for each expectation about `plugin` that the report does not meet, or whose metric it
// lacks.
std::vector<std::string> unmet(const std::vector<Expectation>& expectations,
                               const std::string& plugin, const nlohmann::ordered_json& report);

}  // namespace bp::simulate
