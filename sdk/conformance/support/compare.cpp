#include "sdk/conformance/support/compare.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

namespace bp::conformance {

namespace {

// Infinite where one of them is no number and the other differs.
double error_of(float reference, float found) {
  if (reference == found || (std::isnan(reference) && std::isnan(found))) return 0;
  const double error = std::abs(static_cast<double>(reference) - static_cast<double>(found));
  return std::isfinite(error) ? error : std::numeric_limits<double>::infinity();
}

double deviation_of(const std::vector<float>& values) {
  double sum = 0, squares = 0, n = 0;
  for (const float x : values) {
    if (!std::isfinite(x)) continue;
    sum += x;
    squares += static_cast<double>(x) * x;
    ++n;
  }
  return n == 0 ? 0 : std::sqrt(std::max(squares / n - sum / n * sum / n, 0.0));
}

double ratio(double error, double scale) {
  return error == 0 ? 0 : error / scale;
}

}  // namespace

Difference difference(const std::vector<float>& reference, const std::vector<float>& found,
                      const ErrorBound& bound) {
  Difference result;
  if (reference.size() != found.size()) return result.within = false, result;
  const double deviation = deviation_of(reference);
  double squares = 0, error_squares = 0, largest = 0;
  size_t first_bad = reference.size();
  for (size_t i = 0; i < reference.size(); ++i) {
    const double error = error_of(reference[i], found[i]);
    if (std::isfinite(reference[i])) squares += static_cast<double>(reference[i]) * reference[i];
    error_squares += error * error;
    if (ratio(error, deviation) > bound.max) first_bad = std::min(first_bad, i);
    if (error > largest) {
      largest = error;
      result.at = i;
    }
  }
  if (first_bad < reference.size()) result.at = first_bad;
  result.rms = error_squares == 0 ? 0 : std::sqrt(error_squares / squares);
  result.max = ratio(largest, deviation);
  result.within = result.rms <= bound.rms && result.max <= bound.max;
  return result;
}

std::string number(double x) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", x);
  return text;
}

std::string compare(const std::vector<float>& reference, const std::vector<float>& found,
                    const ErrorBound& bound, uint64_t width) {
  if (reference.size() != found.size()) {
    return std::to_string(found.size()) + " values, expected " + std::to_string(reference.size());
  }
  const Difference d = difference(reference, found, bound);
  if (d.within) return {};
  const uint64_t columns = width == 0 ? reference.size() : width;
  return "row " + std::to_string(d.at / columns) + " column " + std::to_string(d.at % columns) +
         " is " + number(found[d.at]) + ", expected " + number(reference[d.at]) + "; rms error " +
         number(d.rms) + " (bound " + number(bound.rms) + "), largest error " + number(d.max) +
         " deviations (bound " + number(bound.max) + ")";
}

}  // namespace bp::conformance
