// Each op, dtype and shape against the reference, within the bounds of the op's spec.

#include "backplane/dtype.hpp"
#include "sdk/conformance/levels/levels.hpp"
#include "sdk/conformance/resources.hpp"
#include "sdk/conformance/subject.hpp"
#include "sdk/conformance/support/ops/case_variants.hpp"
#include "sdk/conformance/support/ops/hints.hpp"
#include "sdk/conformance/support/ops/op_case.hpp"
#include "sdk/conformance/support/reference_factory.hpp"

namespace bp::conformance {

namespace {

// As the op itself, or by its body, with inputs from gather or else from embed: the first form that
// check accepts. Skips with the sentence of the backend where there is none.
CaseRun accepted_form(const bp_backend_factory& factory, const bp_params& params,
                      const OpSpec& spec, const OpCase& c, CaseRun run) {
  std::string sentence;
  for (const CaseForm form : {CaseForm::kOp, CaseForm::kBody}) {
    if (form == CaseForm::kBody && spec.body.empty()) continue;
    for (const char* lookup : {BP_OP_GATHER, BP_OP_EMBED}) {
      run.form = form;
      run.lookup = lookup;
      const std::string refusal = refusal_of_case(factory, &params, spec, c, run);
      if (refusal.empty()) return run;
      if (sentence.empty()) sentence = refusal;
    }
  }
  throw Skip(sentence);
}

void check_output(const OpSpec& spec, const CaseVariant& variant, const CaseRun& run, size_t o,
                  const CaseOutput& expected, const CaseOutput& found) {
  ErrorBound bound = spec.bound(variant.weights, variant.kv);
  bound.rms *= variant.bound_factor;
  bound.max *= variant.bound_factor;
  const std::string wrong = compare(expected.rows, found.rows, bound, expected.width);
  if (wrong.empty()) return;
  const std::string hint = hint_of(spec, variant.c, run, o, expected.rows, found.rows, bound);
  throw Failure(variant.title + (run.form == CaseForm::kBody ? ", as its body in primitives" : "") +
                ": output " + expected.name + ": " + wrong + (hint.empty() ? "" : "; " + hint));
}

void run_variant(Subject& subject, const OpSpec& spec, const CaseVariant& variant) {
  const auto factory = subject.factory<bp_backend_factory>(BP_BACKEND_ID);
  CaseRun run;
  run.weights = variant.weights;
  run.kv = variant.kv;
  run.seed = subject.options().seed;
  const CaseRun form = accepted_form(factory, subject.params(), spec, variant.c, run);
  const auto expected = run_case_outputs(kReference, nullptr, spec, variant.c, run);
  std::vector<CaseOutput> found;
  try {
    found = run_case_outputs(factory, &subject.params(), spec, variant.c, form);
  } catch (const Failure& failure) {
    throw Failure(variant.title + ": " + failure.what());
  }
  for (size_t o = 0; o < expected.size(); ++o) {
    check_output(spec, variant, form, o, expected[o], found[o]);
  }
}

}  // namespace

void add_ops_tests(Subject&, Tests& tests) {
  for (const OpSpec& spec : load_op_specs(op_specs_folder())) {
    for (CaseVariant& variant : variants_of(spec)) {
      Test test;
      test.name = variant.name;
      test.level = "ops";
      test.description = variant.title + ": within the spec's bound of the reference";
      test.body = [spec, variant](Subject& subject) { run_variant(subject, spec, variant); };
      tests.push_back(std::move(test));
    }
  }
}

}  // namespace bp::conformance
