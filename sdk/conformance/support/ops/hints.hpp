#pragma once
// What a wrong result equals (the reference's with one attribute changed, one optional slot left
// out, or other positions), or else which heads and rows of it are wrong.

#include <string>

#include "sdk/conformance/support/ops/op_case.hpp"

namespace bp::conformance {

// "it equals the result with pairing = pairs", or "". `output` counts the op's filled outputs.
[[nodiscard]] std::string hint_of(const OpSpec& spec, const OpCase& c, const CaseRun& run,
                                  size_t output, const std::vector<float>& expected,
                                  const std::vector<float>& found, const ErrorBound& bound);

}  // namespace bp::conformance
