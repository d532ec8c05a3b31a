// Every case of every op spec, composite and inlined, within the spec's bound of the reference.

#include <gtest/gtest.h>

#include "backplane/dtype.hpp"
#include "sdk/conformance/support/ops/op_case.hpp"
#include "sdk/conformance/support/reference_factory.hpp"
#include "tests/backends/cpu/isa_backends.hpp"
#include "tests/support/op_specs.hpp"

namespace bp::test {
namespace {

using namespace conformance;

std::string name_of(const OpSpec& spec, const OpCase& c, const CaseRun& run) {
  return spec.name + " " + c.name + " " + std::string(dtype_name(run.weights)) + " kv " +
         std::string(dtype_name(run.kv)) + (run.form == CaseForm::kBody ? " inlined" : "");
}

// What the cpu backend refuses by name, as config_test shows, others keep.
bool is_kept(bp_dtype kv) {
  return kv != BP_DTYPE_F8_E4M3;
}

// Returns how many outputs it compared.
uint32_t compare_case(const OpSpec& spec, const OpCase& c, const CaseRun& run) {
  const auto expected = run_case(kReference, spec, c, {run.weights, run.kv, CaseForm::kOp});
  const ErrorBound bound = spec.bound(run.weights, run.kv);
  uint32_t n_compared = 0;
  for (const NamedFactory& backend : cpu_factories()) {
    SCOPED_TRACE(name_of(spec, c, run) + " on " + backend.name);
    const auto found = run_case(*backend.factory, spec, c, run);
    EXPECT_EQ(found.size(), expected.size());
    for (size_t o = 0; o < std::min(found.size(), expected.size()); ++o, ++n_compared) {
      EXPECT_EQ(compare(expected[o], found[o], bound), "") << "output " << o;
    }
  }
  return n_compared;
}

TEST(CpuOpCases, AreWithinTheBoundsOfTheSpecs) {
  uint32_t n_compared = 0;
  for (const OpSpec& spec : load_op_specs()) {
    for (const OpCase& c : spec.cases) {
      for (const bp_dtype weights : c.dtypes) {
        for (const bp_dtype kv : c.kv_dtypes) {
          if (!is_kept(kv)) continue;
          n_compared += compare_case(spec, c, {weights, kv, CaseForm::kOp});
          if (spec.body.empty()) continue;
          n_compared += compare_case(spec, c, {weights, kv, CaseForm::kBody});
        }
      }
    }
  }
  EXPECT_GT(n_compared, 150u);
}

}  // namespace
}  // namespace bp::test
