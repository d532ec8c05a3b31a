// The interpreter runs other plugins' kernels at every place of their op, and nowhere else.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backplane/reference/backend.hpp"
#include "sdk/conformance/support/backend_session.hpp"
#include "sdk/conformance/support/batch_builder.hpp"
#include "sdk/conformance/support/reference_factory.hpp"
#include "sdk/conformance/support/tiny_llama.hpp"
#include "tests/support/override_cases.hpp"

namespace bp::test {
namespace {

using namespace conformance;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Status run(const std::vector<const bp_override*>& overrides, std::vector<float>& logits) {
  TinyLlama llama(BP_DTYPE_Q8_0);
  BackendSession session(kReference);
  session.compile(llama.program(), with_overrides(BackendSession::default_options(), overrides), 8);
  BatchBuilder batch;
  batch.add_sequence({1, 5, 9, 3}, 0, {1, 2, 3, 4});
  batch.add_output(0, {3}, TinyLlama::kVocab);
  BP_TRY(session.run(batch.build()));
  logits = batch.output(0);
  return {};
}

std::vector<float> logits_with(const std::vector<const bp_override*>& overrides) {
  std::vector<float> logits;
  const Status status = run(overrides, logits);
  EXPECT_TRUE(status.ok()) << status.message();
  return logits;
}

TEST(Override, ReachesEveryProductOfALayer) {
  PlainKernels linear("linear");
  logits_with({linear.entry()});
  EXPECT_EQ(linear.places.size(), TinyLlama::kLayers * (3 + 1 + 3) + 1u);
  EXPECT_EQ(linear.n_rows, TinyLlama::kLayers * (3 + 1 + 3) * 4 + 1u) << "the head has one row";
}

TEST(Override, LeavesWhatItDoesNotAcceptToTheBase) {
  PlainKernels linear("linear");
  linear.accepted = [](const KernelPlace& place) {
    const bp_weight_part* weight = place.only_part(0);
    return weight != nullptr && weight->dtype == BP_DTYPE_F32;
  };
  EXPECT_EQ(logits_with({linear.entry()}), logits_with({}));
  EXPECT_THAT(linear.places, ElementsAre());
}

TEST(Override, DecidesTheResult) {
  PlainKernels linear("linear");
  linear.factor = 2;
  linear.accepted = [](const KernelPlace& place) { return place.c().n_out == TinyLlama::kVocab; };
  auto expected = logits_with({});
  for (float& value : expected) value *= 2;
  const auto found = logits_with({linear.entry()});
  for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-5);
}

TEST(Override, AnErrorFailsTheStepAndSaysWhose) {
  PlainKernels norm("norm");
  norm.failure = internal_error("the abacus broke");
  std::vector<float> logits;
  const Status status = run({norm.entry()}, logits);
  EXPECT_EQ(status.code(), Code::kInternal);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("plugin 'plain'"), HasSubstr("for norm in op"),
                                      HasSubstr("the abacus broke")));
}

TEST(Override, OfAnOpWithoutPlacesIsRefused) {
  TinyLlama llama;
  PlainKernels rope("rope");
  const std::vector<const bp_override*> overrides = {rope.entry()};
  BackendSession session(kReference);
  const Status status = session.try_compile(
      llama.program(), with_overrides(BackendSession::default_options(), overrides));
  EXPECT_EQ(status.code(), Code::kUnsupported);
  EXPECT_THAT(status.message(), HasSubstr("rope"));
}

class OwnWay : public reference::ReferenceBackend {
 public:
  using ReferenceBackend::ReferenceBackend;
  static Result<std::unique_ptr<Backend>> create(const Host& host, const Params&) {
    return std::unique_ptr<Backend>(std::make_unique<OwnWay>(host, reference::Settings()));
  }
  [[nodiscard]] uint64_t compile_features() const override { return 0; }
};

TEST(Override, IsRefusedByABackendThatDoesNotKnowIt) {
  static constexpr bp_backend_factory kOwnWay = backend_factory<OwnWay>();
  TinyLlama llama;
  PlainKernels linear("linear");
  const std::vector<const bp_override*> overrides = {linear.entry()};
  BackendSession session(kOwnWay);
  const auto options = BackendSession::default_options();
  const Status status = session.try_compile(llama.program(), with_overrides(options, overrides));
  EXPECT_EQ(status.code(), Code::kUnsupported);
  EXPECT_THAT(status.message(), HasSubstr("takes no override"));
}

// Biases, packed weights, head norms, gates and caps stay right around the places.
TEST(Override, KeepsTheOpCasesWithinTheirBounds) {
  PlainKernels linear("linear"), norm("norm"), activate("activate");
  expect_op_cases_hold<kReference>(
      {linear.entry(), norm.entry(), activate.entry()},
      [](const OpSpec& spec, bp_dtype) { return spec.bound(BP_DTYPE_F32, BP_DTYPE_F32); });
  EXPECT_GT(linear.places.size(), 40u);
  EXPECT_GT(norm.places.size(), 10u);
  EXPECT_GT(activate.places.size(), 10u);
}

}  // namespace
}  // namespace bp::test
