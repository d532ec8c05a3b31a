#pragma once
// Runs a spec's case on a backend: the op on seeded random data, or its body in primitives.

#include <string>
#include <vector>

#include "backplane/backend.h"
#include "sdk/conformance/support/compare.hpp"
#include "sdk/conformance/support/ops/op_spec.hpp"

namespace bp::conformance {

enum class CaseForm { kOp, kBody };

struct CaseRun {
  bp_dtype weights = BP_DTYPE_F32;
  bp_dtype kv = BP_DTYPE_F32;
  CaseForm form = CaseForm::kOp;
  uint64_t seed = 0;
  std::string lookup = BP_OP_GATHER;   // reads the inputs' rows: gather or embed
  uint32_t first_position = 0;         // of every sequence
  bp_dtype kv_values = BP_DTYPE_NONE;  // where the cache has another type for values than for keys
};

struct CaseOutput {
  std::string name;
  uint64_t width;
  std::vector<float> rows;
};

// What the backend refuses of the case's program, above all of the op itself, or "".
[[nodiscard]] std::string refusal_of_case(const bp_backend_factory& factory,
                                          const bp_params* params, const OpSpec& spec,
                                          const OpCase& c, const CaseRun& run);

// The rows of each output of the op. Throws Failure where the step breaks a rule, Skip where the
// backend does not compile the program.
[[nodiscard]] std::vector<CaseOutput> run_case_outputs(const bp_backend_factory& factory,
                                                       const bp_params* params, const OpSpec& spec,
                                                       const OpCase& c, const CaseRun& run);

// As above, the rows alone.
[[nodiscard]] std::vector<std::vector<float>> run_case(const bp_backend_factory& factory,
                                                       const OpSpec& spec, const OpCase& c,
                                                       const CaseRun& run);

}  // namespace bp::conformance
