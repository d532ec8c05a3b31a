// Other plugins' kernels on the cpu backend: what is fused otherwise is taken apart, and stays
// right.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backends/cpu/plan/planner.hpp"
#include "sdk/conformance/support/backend_session.hpp"
#include "sdk/conformance/support/batch_builder.hpp"
#include "sdk/conformance/support/tiny_llama.hpp"
#include "tests/backends/cpu/isa_backends.hpp"
#include "tests/support/override_cases.hpp"

namespace bp::test {
namespace {

using namespace conformance;
using ::testing::AllOf;
using ::testing::HasSubstr;

Status run(const std::vector<const bp_override*>& overrides, std::vector<float>& logits) {
  TinyLlama llama(BP_DTYPE_F32);
  BackendSession session(kScalarFactory);
  session.compile(llama.program(), with_overrides(BackendSession::default_options(), overrides), 8);
  BatchBuilder batch;
  batch.add_sequence({1, 5, 9, 3, 7, 2, 8, 4, 6}, 0, {1});
  batch.add_output(0, {8}, TinyLlama::kVocab);
  BP_TRY(session.run(batch.build()));
  logits = batch.output(0);
  return {};
}

TEST(CpuOverride, KeepsTheOpCasesWithinTheirBounds) {
  PlainKernels linear("linear"), norm("norm"), activate("activate");
  const std::vector<std::vector<const bp_override*>> sets = {
      {linear.entry()}, {linear.entry(), norm.entry(), activate.entry()}};
  for (size_t s = 0; s < sets.size(); ++s) {
    SCOPED_TRACE("set " + std::to_string(s));
    expect_op_cases_hold<kScalarFactory>(sets[s], [](const OpSpec& spec, bp_dtype weights) {
      return spec.bound(weights, BP_DTYPE_F32);
    });
  }
  EXPECT_GT(linear.places.size(), 80u);
  EXPECT_GT(norm.places.size(), 10u);
  EXPECT_GT(activate.places.size(), 10u);
}

TEST(CpuOverride, OfSomePlacesLeavesTheOthersToTheBackend) {
  PlainKernels none("linear"), some("linear"), all("linear");
  none.accepted = [](const KernelPlace&) { return false; };
  some.accepted = [](const KernelPlace& place) { return place.c().n_out == TinyLlama::kFf; };
  std::vector<float> plain, with_none, with_some, with_all;
  ASSERT_TRUE(run({}, plain).ok());
  ASSERT_TRUE(run({none.entry()}, with_none).ok());
  ASSERT_TRUE(run({some.entry()}, with_some).ok());
  ASSERT_TRUE(run({all.entry()}, with_all).ok());
  EXPECT_EQ(with_none, plain);
  EXPECT_EQ(some.places.size(), 2u * TinyLlama::kLayers) << "gate and up";
  EXPECT_EQ(all.places.size(), 7u * TinyLlama::kLayers + 1);
  for (size_t i = 0; i < plain.size(); ++i) {
    EXPECT_NEAR(with_some[i], plain[i], 1e-4);
    EXPECT_NEAR(with_all[i], plain[i], 1e-4);
  }
}

TEST(CpuOverride, AnErrorFailsTheStepAndSaysWhose) {
  PlainKernels activate("activate");
  activate.failure = internal_error("the abacus broke");
  std::vector<float> logits;
  const Status status = run({activate.entry()}, logits);
  EXPECT_EQ(status.code(), Code::kInternal);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("plugin 'plain'"), HasSubstr("gated_mlp"),
                                      HasSubstr("the abacus broke")));
}

}  // namespace
}  // namespace bp::test
