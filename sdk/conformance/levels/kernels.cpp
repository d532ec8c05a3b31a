// Kernels for single ops, inside the reference backend: every case of the ops they are part of,
// within the spec's bound of the reference alone.

#include <algorithm>
#include <string>
#include <vector>

#include "backplane/ops.h"
#include "sdk/conformance/kinds/checked_kernels.hpp"
#include "sdk/conformance/levels/levels.hpp"
#include "sdk/conformance/resources.hpp"
#include "sdk/conformance/subject.hpp"
#include "sdk/conformance/support/ops/case_variants.hpp"
#include "sdk/conformance/support/ops/op_case.hpp"
#include "sdk/conformance/support/reference_factory.hpp"

namespace bp::conformance {

namespace {

struct Where {
  const char* op;
  std::vector<std::string> specs;  // ops that have its places
};

const std::vector<Where>& wheres() {
  static const std::vector<Where> all = {
      {BP_OP_LINEAR, {"linear", "matmul", "qkv", "gated_mlp", "lm_head"}},
      {BP_OP_NORM, {"norm", "normalize", "qkv"}},
      {BP_OP_ACTIVATE, {"activate", "linear", "gated_mlp"}},
  };
  return all;
}

// A backend's compile takes no pointer of ours; tests run one at a time.
const bp_override* current = nullptr;

// The reference's, with the kernels that `current` names.
bp_status compile_with_kernels(bp_backend* backend, const bp_program* program,
                               const bp_compile_options* options, bp_executable** out,
                               bp_error* error) {
  bp_compile_options mine = *options;
  mine.required |= BP_COMPILE_OVERRIDES;
  mine.n_overrides = 1;
  mine.overrides = &current;
  return kReference.compile(backend, program, &mine, out, error);
}

void check_variant(const bp_backend_factory& factory, const OpSpec& spec,
                   const CaseVariant& variant, uint64_t seed) {
  CaseRun run;
  run.weights = variant.weights;
  run.kv = variant.kv;
  run.seed = seed;
  const auto expected = run_case_outputs(kReference, nullptr, spec, variant.c, run);
  std::vector<CaseOutput> found;
  try {
    found = run_case_outputs(factory, nullptr, spec, variant.c, run);
  } catch (const Failure& failure) {
    throw Failure(variant.title + ": " + failure.what());
  }
  ErrorBound bound = spec.bound(variant.weights, variant.kv);
  bound.rms *= variant.bound_factor;
  bound.max *= variant.bound_factor;
  for (size_t o = 0; o < expected.size(); ++o) {
    const std::string wrong = compare(expected[o].rows, found[o].rows, bound, expected[o].width);
    require(wrong.empty(), variant.title + ": output " + expected[o].name + ": " + wrong);
  }
}

void check_spec(Subject& subject, const std::string& op, const OpSpec& spec) {
  CheckedKernels kernels(subject, op);
  const bp_override entry = kernels.entry();
  current = &entry;
  bp_backend_factory factory = kReference;
  factory.compile = compile_with_kernels;
  for (const CaseVariant& variant : variants_of(spec)) {
    check_variant(factory, spec, variant, subject.options().seed);
  }
  current = nullptr;
  require(kernels.complaint().empty(), kernels.complaint());
  if (kernels.n_places() == 0) {
    throw Skip("the kernels accept no place of the op's cases");
  }
  require(kernels.n_calls() > 0, "no kernel was called");
}

void has_kernels(Subject& subject) {
  std::string refused;
  for (const Where& where : wheres()) {
    try {
      const CheckedKernels kernels(subject, where.op);
      return;
    } catch (const Skip& skip) {
      refused += std::string(refused.empty() ? "" : "; ") + skip.what();
    }
  }
  throw Failure("create refuses every op: " + refused);
}

void refuses_nonsense(Subject& subject) {
  try {
    const CheckedKernels kernels(subject, "com.example.nonsense/1");
  } catch (const Skip&) {
    return;
  }
  throw Failure("create for the op com.example.nonsense/1 must be UNSUPPORTED, with a sentence");
}

}  // namespace

void add_kernels_tests(Subject&, Tests& tests) {
  const auto add = [&](std::string name, std::string description, auto body) {
    tests.push_back({std::move(name), "kernels", std::move(description), std::move(body)});
  };
  add("kernels-create", "There are kernels for at least one op.", has_kernels);
  add("kernels-nonsense", "An op without kernels is refused in a sentence.", refuses_nonsense);
  const auto specs = load_op_specs(op_specs_folder());
  for (const Where& where : wheres()) {
    for (const OpSpec& spec : specs) {
      if (std::count(where.specs.begin(), where.specs.end(), spec.name) == 0) continue;
      const std::string op = where.op;
      std::string name = "kernels-" + op + "-in-" + spec.name;
      std::replace(name.begin(), name.end(), '_', '-');
      add(name, "Within " + spec.name + ", " + op + " is within the spec's bound of the reference.",
          [op, spec](Subject& subject) { check_spec(subject, op, spec); });
    }
  }
}

}  // namespace bp::conformance
