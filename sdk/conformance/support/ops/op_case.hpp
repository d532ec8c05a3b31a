#pragma once
// Runs a spec's case on a backend: the op on seeded random data, or its body in primitives.

#include <string>
#include <vector>

#include "backplane/backend.h"
#include "sdk/conformance/support/ops/op_spec.hpp"

namespace bp::conformance {

enum class CaseForm { kOp, kBody };

struct CaseRun {
  bp_dtype weights = BP_DTYPE_F32;
  bp_dtype kv = BP_DTYPE_F32;
  CaseForm form = CaseForm::kOp;
};

// The rows of each output of the op. Throws when the backend refuses something.
[[nodiscard]] std::vector<std::vector<float>> run_case(const bp_backend_factory& factory,
                                                       const OpSpec& spec, const OpCase& c,
                                                       const CaseRun& run);

// "" where `found` is within the bound of `reference`, else what is wrong.
[[nodiscard]] std::string compare(const std::vector<float>& reference,
                                  const std::vector<float>& found, const ErrorBound& bound);

}  // namespace bp::conformance
