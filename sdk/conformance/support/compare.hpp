#pragma once
// Rows against those of the reference, with the place and the size of the difference.

#include <string>
#include <vector>

#include "sdk/conformance/support/ops/op_spec.hpp"

namespace bp::conformance {

struct Difference {
  double rms = 0;      // rms(error) / rms(reference)
  double max = 0;      // max(abs(error)) / deviation(reference)
  bool within = true;  // of the bound; NaN and infinities must be equal
  size_t at = 0;       // the first value that is out of bounds, or the one with the largest error
};

[[nodiscard]] Difference difference(const std::vector<float>& reference,
                                    const std::vector<float>& found, const ErrorBound& bound);

// "" where `found` is within the bound of `reference`, else what is wrong. width 0: one row.
[[nodiscard]] std::string compare(const std::vector<float>& reference,
                                  const std::vector<float>& found, const ErrorBound& bound,
                                  uint64_t width = 0);

// A short number: 0.25, 1.5e-07, nan.
[[nodiscard]] std::string number(double x);

}  // namespace bp::conformance
