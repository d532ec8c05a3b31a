#include "core/model/rope_parameters.hpp"

#include <map>

#include <fmt/format.h>

namespace bp::model {

namespace {

// A list of numbers, the name of a weight as a string, or none.
Result<std::vector<double>> divisors(const PlacedExpression& expression, const Scope& scope,
                                     const WeightFloats& floats) {
  std::vector<double> out;
  BP_ASSIGN(const Value value, expression.evaluate(scope));
  if (value.is_none()) return out;
  if (const std::string* weight = value.as_string()) {
    BP_ASSIGN(const auto read, floats(expression.place, *weight));
    return std::vector<double>(read.begin(), read.end());
  }
  if (!value.is_list()) return expression.place.error("must be a list of numbers");
  for (const Value& element : value.list()) {
    const auto number = element.as_number();
    if (!number) return expression.place.error("must be a list of numbers");
    out.push_back(*number);
  }
  return out;
}

}  // namespace

Result<RopeParameters> rope_parameters(const RopeSpec& spec, const Scope& scope,
                                       const WeightFloats& floats) {
  RopeParameters p;
  const std::map<std::string, double*> numbers = {{"base", &p.base},
                                                  {"factor", &p.factor},
                                                  {"original_context", &p.original_context},
                                                  {"context", &p.context},
                                                  {"beta_fast", &p.beta_fast},
                                                  {"beta_slow", &p.beta_slow},
                                                  {"extrapolation", &p.extrapolation},
                                                  {"attention_multiplier", &p.attention_multiplier},
                                                  {"mscale", &p.mscale},
                                                  {"mscale_all_dim", &p.mscale_all_dim},
                                                  {"low_freq_factor", &p.low_freq_factor},
                                                  {"high_freq_factor", &p.high_freq_factor}};
  const std::map<std::string, std::vector<double>*> lists = {{"short_divisors", &p.short_divisors},
                                                             {"long_divisors", &p.long_divisors}};
  for (const auto& [name, expression] : spec.fields) {
    if (const auto number = numbers.find(name); number != numbers.end()) {
      BP_ASSIGN(*number->second, expression.number(scope));
    } else if (const auto list = lists.find(name); list != lists.end()) {
      BP_ASSIGN(*list->second, divisors(expression, scope, floats));
    } else if (name == "n_dims") {
      BP_ASSIGN(p.n_dims, expression.integer(scope));
    } else if (name == "truncate") {
      BP_ASSIGN(p.truncate, expression.condition(scope));
    } else {
      BP_ASSIGN(const Value value, expression.evaluate(scope));
      if (name == "attention_factor" && (value.is_none() || value.as_number())) {
        p.attention_factor = value.as_number();
      } else if (name == "scaling" && value.as_string() != nullptr) {
        p.scaling = *value.as_string();
      } else {
        return expression.place.error(fmt::format("{} has the wrong type", value.text()));
      }
    }
  }
  BP_ASSIGN(p.divisors, floats(spec.place, spec.divisors));
  return p;
}

}  // namespace bp::model
