#include "core/simulate/expectation.hpp"

#include <cmath>
#include <optional>
#include <sstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace bp::simulate {

namespace {

std::optional<double> to_number(const std::string& text) {
  std::istringstream in(text);
  in.imbue(std::locale::classic());
  double value = 0;
  if (in >> value && in.eof() && std::isfinite(value)) return value;
  return std::nullopt;
}

std::optional<double> look_up(const nlohmann::ordered_json& report, const std::string& metric) {
  const nlohmann::ordered_json* node = &report;
  std::istringstream path(metric);
  for (std::string name; std::getline(path, name, '.');) {
    if (!node->is_object() || !node->contains(name)) return std::nullopt;
    node = &(*node)[name];
  }
  if (!node->is_number()) return std::nullopt;
  return node->get<double>();
}

bool holds(double value, const std::string& comparison, double bound) {
  if (comparison == "<=") return value <= bound;
  if (comparison == ">=") return value >= bound;
  if (comparison == "<") return value < bound;
  if (comparison == ">") return value > bound;
  return value == bound;
}

std::optional<std::string> failure(const Expectation& e, const nlohmann::ordered_json& report) {
  const auto value = look_up(report, e.metric);
  const auto bound = e.other.empty() ? std::optional(e.bound) : look_up(report, e.other);
  if (!value || !bound) {
    return fmt::format("{}: the report has no number '{}'", e.text, value ? e.other : e.metric);
  }
  if (holds(*value, e.comparison, *bound)) return std::nullopt;
  if (e.other.empty()) return fmt::format("{}: it is {}", e.text, *value);
  return fmt::format("{}: they are {} and {}", e.text, *value, *bound);
}

}  // namespace

Result<Expectation> parse_expectation(const std::string& text, const std::string& plugin) {
  std::istringstream in(text);
  Expectation e;
  e.text = text;
  e.plugin = plugin;
  std::string right, more;
  const bool three = in >> e.metric >> e.comparison >> right && !(in >> more);
  const bool known = e.comparison == "<=" || e.comparison == ">=" || e.comparison == "<" ||
                     e.comparison == ">" || e.comparison == "==";
  if (!three || !known) {
    return invalid_argument(fmt::format(
        "'{}' is not METRIC COMPARISON NUMBER, as in \"ttft_ms.p99 <= 500\"; the comparisons are "
        "<=, >=, <, > and ==",
        text));
  }
  if (const auto number = to_number(right)) {
    e.bound = *number;
  } else {
    e.other = right;
  }
  return e;
}

std::vector<std::string> unmet(const std::vector<Expectation>& expectations,
                               const std::string& plugin, const nlohmann::ordered_json& report) {
  std::vector<std::string> failures;
  for (const Expectation& e : expectations) {
    if (!e.plugin.empty() && e.plugin != plugin) continue;
    if (auto sentence = failure(e, report)) failures.push_back(*std::move(sentence));
  }
  return failures;
}

}  // namespace bp::simulate
