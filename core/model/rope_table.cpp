#include "core/model/rope_table.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include <fmt/format.h>

#include "core/base/nearest.hpp"

namespace bp::model {

namespace {

constexpr double kTwoPi = 2 * std::numbers::pi;

// "YaRN: Efficient Context Window Extension of Large Language Models", section 3.4.
double yarn_magnitude(double factor, double mscale) {
  return factor <= 1 ? 1 : 0.1 * mscale * std::log(factor) + 1;
}

// "LongRoPE: Extending LLM Context Window Beyond 2 Million Tokens".
double longrope_magnitude(const RopeParameters& p) {
  if (p.attention_factor) return *p.attention_factor;
  if (p.factor <= 1) return p.attention_multiplier;
  return p.attention_multiplier * std::sqrt(1 + std::log(p.factor) / std::log(p.original_context));
}

double magnitude(const RopeParameters& p) {
  if (p.scaling == "longrope") return longrope_magnitude(p);
  if (p.scaling != "yarn") return p.attention_factor.value_or(1);
  if (p.attention_factor) return *p.attention_factor;
  if (p.mscale != 0 && p.mscale_all_dim != 0) {
    return p.attention_multiplier * yarn_magnitude(p.factor, p.mscale) /
           yarn_magnitude(p.factor, p.mscale_all_dim);
  }
  return p.attention_multiplier * yarn_magnitude(p.factor, 1);
}

// The base grows with the context, so that the longest wavelength fits it.
double dynamic_base(const RopeParameters& p) {
  if (p.context <= p.original_context) return p.base;
  const auto n = static_cast<double>(p.n_dims);
  const double grown = p.factor * p.context / p.original_context - (p.factor - 1);
  return p.base * std::pow(grown, n / (n - 2));
}

// The pair whose frequency makes `rotations` turns over the original context.
double correction_dim(const RopeParameters& p, double rotations) {
  return static_cast<double>(p.n_dims) * std::log(p.original_context / (rotations * kTwoPi)) /
         (2 * std::log(p.base));
}

// Below `low` frequencies stay as they are, above `high` they are divided by the factor.
void scale_yarn(const RopeParameters& p, std::vector<double>& inv_freq) {
  double low = correction_dim(p, p.beta_fast), high = correction_dim(p, p.beta_slow);
  if (p.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(p.n_dims - 1));
  const double width = std::max(high - low, 0.001);
  for (size_t i = 0; i < inv_freq.size(); ++i) {
    const double ramp = std::clamp((static_cast<double>(i) - low) / width, 0.0, 1.0);
    const double unscaled = (1 - ramp) * p.extrapolation;
    inv_freq[i] = inv_freq[i] / p.factor * (1 - unscaled) + inv_freq[i] * unscaled;
  }
}

// Long wavelengths are divided by the factor, short ones kept, those between blended.
void scale_llama3(const RopeParameters& p, std::vector<double>& inv_freq) {
  const double longest = p.original_context / p.low_freq_factor;
  const double shortest = p.original_context / p.high_freq_factor;
  for (double& f : inv_freq) {
    const double wavelength = kTwoPi / f;
    if (wavelength < shortest) continue;
    if (wavelength > longest) {
      f /= p.factor;
      continue;
    }
    const double smooth = (p.original_context / wavelength - p.low_freq_factor) /
                          (p.high_freq_factor - p.low_freq_factor);
    f = (1 - smooth) * f / p.factor + smooth * f;
  }
}

Status check(const RopeParameters& p) {
  if (p.n_dims <= 0 || p.n_dims % 2 != 0 || p.n_dims > 65536) {
    return invalid_argument(fmt::format("n_dims must be even and positive, not {}", p.n_dims));
  }
  if (!(p.base > 1)) return invalid_argument(fmt::format("base must be above 1, not {}", p.base));
  if (!(p.factor > 0)) {
    return invalid_argument(fmt::format("factor must be positive, not {}", p.factor));
  }
  const bool by_context = p.scaling == "yarn" || p.scaling == "llama3" || p.scaling == "dynamic" ||
                          p.scaling == "longrope";
  if (by_context && !(p.original_context > 0)) {
    return invalid_argument(p.scaling + " scaling needs original_context");
  }
  if (p.scaling == "yarn" && !(p.beta_fast > 0 && p.beta_slow > 0)) {
    return invalid_argument("beta_fast and beta_slow must be positive");
  }
  if (p.scaling == "llama3" && !(p.low_freq_factor > 0 && p.high_freq_factor > p.low_freq_factor)) {
    return invalid_argument("high_freq_factor must be above low_freq_factor, and both positive");
  }
  const auto n_pairs = static_cast<size_t>(p.n_dims / 2);
  if (!p.divisors.empty() && p.divisors.size() != n_pairs) {
    return invalid_argument(
        fmt::format("{} divisors for {} frequencies", p.divisors.size(), n_pairs));
  }
  const auto fits = [&](size_t n) { return n == n_pairs || p.scaling != "longrope"; };
  if (!fits(p.short_divisors.size()) || !fits(p.long_divisors.size())) {
    return invalid_argument(fmt::format("{} short and {} long factors for {} frequencies",
                                        p.short_divisors.size(), p.long_divisors.size(), n_pairs));
  }
  if (p.scaling == "dynamic" && p.n_dims <= 2) {
    return invalid_argument("dynamic scaling needs more than one pair");
  }
  return {};
}

}  // namespace

Result<RopeTable> make_rope_table(const RopeParameters& p) {
  BP_TRY(check(p));
  std::vector<double> inv_freq(static_cast<size_t>(p.n_dims / 2));
  const double base = p.scaling == "dynamic" ? dynamic_base(p) : p.base;
  for (size_t i = 0; i < inv_freq.size(); ++i) {
    const double exponent = 2 * static_cast<double>(i) / static_cast<double>(p.n_dims);
    inv_freq[i] = std::pow(base, -exponent);
    if (!p.divisors.empty()) inv_freq[i] /= static_cast<double>(p.divisors[i]);
  }
  if (p.scaling == "linear") {
    for (double& f : inv_freq) f /= p.factor;
  } else if (p.scaling == "yarn") {
    scale_yarn(p, inv_freq);
  } else if (p.scaling == "llama3") {
    scale_llama3(p, inv_freq);
  } else if (p.scaling == "longrope") {
    const bool is_long = p.context > p.original_context;
    const auto& divisors = is_long ? p.long_divisors : p.short_divisors;
    for (size_t i = 0; i < inv_freq.size(); ++i) inv_freq[i] /= divisors[i];
  } else if (p.scaling != "none" && p.scaling != "default" && p.scaling != "dynamic") {
    const std::vector<std::string> known = {"none",     "default", "linear", "dynamic",
                                            "longrope", "yarn",    "llama3"};
    return unsupported(
        fmt::format("scaling '{}' is unknown{}", p.scaling, base::nearest_hint(p.scaling, known)));
  }
  RopeTable table;
  table.magnitude = magnitude(p);
  for (const double f : inv_freq) {
    if (!std::isfinite(f)) return invalid_argument("a frequency is not finite");
    table.inv_freq.push_back(static_cast<float>(f));
  }
  return table;
}

}  // namespace bp::model
