#pragma once
// All that conformance runs of an op: the cases of its spec, and cases derived from them at the
// shapes where kernels go wrong.

#include <string>
#include <vector>

#include "sdk/conformance/support/ops/op_spec.hpp"

namespace bp::conformance {

struct CaseVariant {
  OpCase c;
  bp_dtype weights;
  bp_dtype kv;
  double bound_factor = 1;  // over the spec's bound
  std::string name;         // "ops-linear-odd-q8-0", unique and stable
  std::string title;        // "linear, case odd, weights q8_0"
};

[[nodiscard]] std::vector<CaseVariant> variants_of(const OpSpec& spec);

}  // namespace bp::conformance
