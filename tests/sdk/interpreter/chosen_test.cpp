// Ids of -1-r: which of them a batch may have, and what the interpreter puts in their place.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "backplane/validate_batch.hpp"
#include "sdk/conformance/support/backend_session.hpp"
#include "sdk/conformance/support/batch_builder.hpp"
#include "sdk/conformance/support/device_sampling.hpp"
#include "sdk/conformance/support/reference_factory.hpp"
#include "sdk/conformance/support/tiny_llama.hpp"

namespace bp::test {
namespace {

using namespace conformance;

using testing::HasSubstr;

constexpr uint32_t kWidth = TinyLlama::kVocab;

BatchLimits limits_of(std::span<const uint8_t> chosen_rows, std::span<const uint32_t> n_blocks) {
  BatchLimits limits;
  limits.max_step_tokens = limits.max_sequences = limits.max_context = limits.max_output_rows = 8;
  limits.block_size = 4;
  limits.n_blocks = n_blocks;
  limits.takes_chosen = true;
  limits.chosen_rows = chosen_rows;
  return limits;
}

Status validate(const std::vector<int32_t>& tokens, const BatchLimits& limits) {
  BatchBuilder builder;
  builder.add_sequence(tokens, 0, {1, 2});
  return validate_batch(builder.build(), limits);
}

TEST(ChosenRows, IdsNameRowsThatChoseSomething) {
  const uint32_t n_blocks[] = {8};
  const uint8_t rows[] = {1, 0, 1};
  BatchLimits limits = limits_of(rows, n_blocks);
  EXPECT_TRUE(validate({5, -1, 99, -3}, limits).ok());
  for (const auto& [id, sentence] :
       {std::pair{-2,
                  "token 1 names row 1 of the step before, from which nothing was to be chosen "
                  "(it sampled 3 rows)"},
        {-4, "token 1 names row 3 of the step before, which sampled 3 rows"},
        {std::numeric_limits<int32_t>::min(), "names row 2147483647 of the step before"}}) {
    const Status status = validate({5, id, -1}, limits);
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    EXPECT_THAT(status.message(), HasSubstr(sentence));
  }
  limits.chosen_rows = {};
  EXPECT_THAT(validate({-1}, limits).message(), HasSubstr("which sampled 0 rows"));
}

TEST(ChosenRows, AreNotLookedAtWhereABackendTakesNone) {
  const uint32_t n_blocks[] = {8};
  BatchLimits limits = limits_of({}, n_blocks);
  limits.takes_chosen = false;
  EXPECT_TRUE(validate({5, -1, std::numeric_limits<int32_t>::min()}, limits).ok());
}

TEST(ChosenRows, AreListedOverSampledOutputsInTheirOrder) {
  BatchBuilder builder;
  builder.add_sequence({1, 2, 3}, 0, {1});
  builder.add_sampled_output(2, {1, 2}, kWidth, {plain_request(), best_request()});
  builder.add_output(1, {0, 1, 2}, kWidth);
  builder.add_sampled_output(0, {0}, kWidth, {draw_request(0, -1, 1, 0.5)});
  std::vector<uint8_t> rows = {1, 1, 1, 1, 1};
  list_chosen_rows(builder.build(), rows);
  EXPECT_EQ(rows, (std::vector<uint8_t>{0, 1, 1}));
}

class Chosen : public testing::Test {
 protected:
  Chosen() : session_(kReference) {
    bp_compile_options options = BackendSession::default_options();
    options.block_size = 4;
    session_.compile(model_.program(), options, 8);
  }
  // A sequence's last row is sampled; its tokens follow `first` others.
  static BatchBuilder step(const std::vector<std::vector<int32_t>>& sequences, int32_t first) {
    BatchBuilder batch;
    std::vector<uint32_t> rows;
    for (const auto& tokens : sequences) {
      batch.add_sequence(tokens, first, {static_cast<int32_t>(1 + rows.size())});
      rows.push_back(batch.n_tokens() - 1);
    }
    batch.add_sampled_output(0, rows, kWidth,
                             std::vector<bp_row_request>(rows.size(), best_request()));
    return batch;
  }
  void run(BatchBuilder& batch) {
    const Status status = session_.run(batch.build());
    ASSERT_TRUE(status.ok()) << status.message();
  }

  TinyLlama model_;
  BackendSession session_;
};

TEST_F(Chosen, WhereNoTokenCameItsSequenceFails) {
  BatchBuilder before = step({{1, 99}, {3, 4}}, 0);
  run(before);
  EXPECT_EQ(before.status(), (std::vector<int32_t>{BP_SEQ_FAILED, BP_SEQ_OK}));
  BatchBuilder after = step({{-1}, {-2}}, 2);
  run(after);
  EXPECT_EQ(after.status(), (std::vector<int32_t>{BP_SEQ_FAILED, BP_SEQ_OK}));
  EXPECT_EQ(after.broken_rule(), "");  // the batch's own ids are as they were
  BatchBuilder expected = step({{0}, {before.results(0)[1].token}}, 2);
  run(expected);
  EXPECT_EQ(after.results(0)[1].token, expected.results(0)[1].token);
  EXPECT_EQ(after.results(0)[1].log_sum, expected.results(0)[1].log_sum);
}

TEST_F(Chosen, ARefusedStepLeavesWhatWasChosen) {
  BatchBuilder before = step({{1, 2}, {3, 4}}, 0);
  run(before);
  BatchBuilder refused = step({{-3}, {-1}}, 2);
  EXPECT_EQ(session_.run(refused.build()).code(), Code::kInvalidArgument);
  BatchBuilder after = step({{-1}, {-2}}, 2);
  run(after);
  EXPECT_EQ(after.status(), (std::vector<int32_t>{BP_SEQ_OK, BP_SEQ_OK}));
}

}  // namespace
}  // namespace bp::test
