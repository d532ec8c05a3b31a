#include "core/simulate/distribution.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/base/yaml.hpp"
#include "core/simulate/trace.hpp"

namespace bp::simulate {

namespace {

// (0, 1], for logarithms.
double positive_uniform(Draws& draws) {
  return 1 - draws.next();
}

double draw_normal(Draws& draws) {
  const double radius = std::sqrt(-2 * std::log(positive_uniform(draws)));
  return radius * std::cos(2 * std::numbers::pi * draws.next());
}

// Gamma of shape >= 1 and scale 1: Marsaglia and Tsang, "A simple method for generating gamma
// variables" (2000).
double draw_standard_gamma(Draws& draws, double shape) {
  const double d = shape - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  while (true) {
    const double x = draw_normal(draws), root = 1 + c * x;
    if (root <= 0) continue;
    const double v = root * root * root;
    if (std::log(positive_uniform(draws)) < 0.5 * x * x + d - d * v + d * std::log(v)) return d * v;
  }
}

constexpr double kMostVariation = 100;

}  // namespace

double draw_gamma(Draws& draws, double mean, double cv) {
  if (cv == 0) return mean;
  if (cv == 1) return -mean * std::log(positive_uniform(draws));
  const double shape = 1 / (cv * cv), scale = mean / shape;
  if (shape >= 1) return scale * draw_standard_gamma(draws, shape);
  // Gamma(a) is Gamma(a + 1) times U^(1/a).
  const double power = std::pow(positive_uniform(draws), 1 / shape);
  return scale * power * draw_standard_gamma(draws, shape + 1);
}

double draw_log_normal(Draws& draws, double mean, double cv) {
  const double variance = std::log(1 + cv * cv);
  return mean * std::exp(std::sqrt(variance) * draw_normal(draws) - variance / 2);
}

uint32_t LengthDistribution::draw(Draws draws) const {
  if (kind == Kind::kConstant) return min;
  if (kind == Kind::kUniform) {
    return min + static_cast<uint32_t>(draws.next() * (double{1} + max - min));
  }
  const double value =
      kind == Kind::kGamma ? draw_gamma(draws, mean, cv) : draw_log_normal(draws, mean, cv);
  return static_cast<uint32_t>(std::clamp<double>(std::round(value), min, max));
}

Result<LengthDistribution> read_length(const base::Yaml& node) {
  LengthDistribution d;
  const auto read_tokens = [](const base::Yaml& n, uint32_t& out) -> Status {
    BP_ASSIGN(const int64_t value, n.as_int(1, kMostTokens));
    out = static_cast<uint32_t>(value);
    return {};
  };
  if (node.is_scalar()) {
    BP_TRY(read_tokens(node, d.min));
    d.max = d.min;
    return d;
  }
  BP_TRY(node.expect_keys({"mean", "cv", "kind", "min", "max"}));
  d.max = kMostTokens;
  if (const auto min = node.find("min")) BP_TRY(read_tokens(*min, d.min));
  if (const auto max = node.find("max")) BP_TRY(read_tokens(*max, d.max));
  if (d.min > d.max) return node.error("min is larger than max");
  const auto mean = node.find("mean");
  if (!mean) {
    d.kind = LengthDistribution::Kind::kUniform;
    if (!node.find("max") || node.find("cv") || node.find("kind")) {
      return node.error("needs 'mean', or 'min' and 'max' for a uniform distribution");
    }
    return d;
  }
  BP_ASSIGN(d.mean, mean->as_float());
  d.cv = 1;
  if (const auto cv = node.find("cv")) {
    BP_ASSIGN(d.cv, cv->as_float());
  }
  if (!(d.mean >= 1 && d.mean <= kMostTokens)) return mean->error("must be 1 to 16777216");
  if (!(d.cv >= 0 && d.cv <= kMostVariation)) return node.error("cv must be 0 to 100");
  d.kind = LengthDistribution::Kind::kLogNormal;
  if (const auto kind = node.find("kind")) {
    BP_ASSIGN(const std::string name, kind->as_string());
    if (name == "gamma") d.kind = LengthDistribution::Kind::kGamma;
    if (name != "gamma" && name != "log-normal") {
      return kind->error("must be 'log-normal' or 'gamma'");
    }
  }
  return d;
}

}  // namespace bp::simulate
