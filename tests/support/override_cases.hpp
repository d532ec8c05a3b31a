#pragma once
// Every case of every op spec on a backend that is given other plugins' kernels.

#include <gtest/gtest.h>

#include "backplane/dtype.hpp"
#include "sdk/conformance/support/ops/op_case.hpp"
#include "sdk/conformance/support/reference_factory.hpp"
#include "tests/support/op_specs.hpp"
#include "tests/support/plain_kernels.hpp"

namespace bp::test {

// That they stay within bound_of(spec, weights) of the reference.
template <const bp_backend_factory& kBase, class BoundOf>
void expect_op_cases_hold(const std::vector<const bp_override*>& overrides,
                          const BoundOf& bound_of) {
  overrides_of_all() = overrides;
  const bp_backend_factory overriding = overriding_factory<kBase>();
  for (const conformance::OpSpec& spec : load_op_specs()) {
    for (const conformance::OpCase& c : spec.cases) {
      for (const bp_dtype weights : c.dtypes) {
        SCOPED_TRACE(spec.name + " " + c.name + " " + std::string(dtype_name(weights)));
        conformance::CaseRun how;
        how.weights = weights;
        const auto expected = run_case(conformance::kReference, spec, c, how);
        const auto found = run_case(overriding, spec, c, how);
        ASSERT_EQ(found.size(), expected.size());
        for (size_t o = 0; o < found.size(); ++o) {
          EXPECT_EQ(compare(expected[o], found[o], bound_of(spec, weights)), "") << "output " << o;
        }
      }
    }
  }
}

}  // namespace bp::test
