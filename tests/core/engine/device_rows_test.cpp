// Tokens chosen by the backend are those that the engine would have chosen from the logits.

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "backplane/row_sampling.hpp"
#include "core/engine/device_rows.hpp"
#include "core/engine/row_math.hpp"
#include "fixture.hpp"

namespace bp::engine::testing {
namespace {

constexpr uint32_t kOffered = 64;

struct Case {
  const char* name;
  plugin::ParamMap sampling;
  bool stays = true;  // the logits, with the backend
  std::vector<std::string> chain = {};
};

class DeviceRowsTest : public EngineTest {
 protected:
  void offer(uint32_t max_candidates) {
    engine.reset();  // its last step may still be in flight
    model.max_candidates = max_candidates;
    model.n_rows_given = model.n_rows_sampled = 0;
    start();
  }
  std::vector<Answer> answers(const Request& request, uint32_t max_candidates) {
    offer(max_candidates);
    return submit(request)->wait(request.n);
  }
  // With the logits at the host, and with the backend's own sampling.
  void expect_equal(const Request& request, const char* name) {
    const auto expected = answers(request, 0);
    EXPECT_EQ(model.n_rows_sampled, 0u) << name;
    const auto found = answers(request, kOffered);
    ASSERT_EQ(found.size(), expected.size());
    for (size_t i = 0; i < found.size(); ++i) {
      EXPECT_EQ(found[i].tokens, expected[i].tokens) << name << ", choice " << i;
      EXPECT_EQ(found[i].finish.reason, expected[i].finish.reason) << name;
      EXPECT_EQ(found[i].finish.error, expected[i].finish.error) << name;
      expect_equal(expected[i].logprobs, found[i].logprobs, name);
    }
  }
  static void expect_equal(const std::vector<PositionLogprobs>& expected,
                           const std::vector<PositionLogprobs>& found, const char* name) {
    ASSERT_EQ(found.size(), expected.size()) << name;
    for (size_t i = 0; i < found.size(); ++i) {
      EXPECT_EQ(found[i].chosen.token, expected[i].chosen.token) << name;
      EXPECT_NEAR(found[i].chosen.logprob, expected[i].chosen.logprob, 1e-5) << name;
      ASSERT_EQ(found[i].top.size(), expected[i].top.size()) << name;
      for (size_t k = 0; k < found[i].top.size(); ++k) {
        EXPECT_EQ(found[i].top[k].token, expected[i].top[k].token) << name;
        EXPECT_NEAR(found[i].top[k].logprob, expected[i].top[k].logprob, 1e-5) << name;
      }
    }
  }
};

const Case kCases[] = {
    {"greedy", {}},
    {"greedy with filters", {{"top_k", int64_t{9}}, {"top_p", 0.5}, {"min_p", 0.1}}},
    {"temperature", {{"temperature", 0.8}}},
    {"no stage", {{"temperature", 1.0}}},
    {"min_p", {{"temperature", 1.3}, {"min_p", 0.05}}},
    {"min_p after temperature",
     {{"temperature", 2.0}, {"min_p", 0.2}},
     true,
     {"temperature", "min_p"}},
    {"top_k", {{"temperature", 0.9}, {"top_k", int64_t{20}}}},
    {"all three", {{"temperature", 1.5}, {"top_k", int64_t{50}}, {"min_p", 0.1}}},
    {"top_p after top_k", {{"temperature", 1.0}, {"top_k", int64_t{40}}, {"top_p", 0.7}}},
    {"typical_p after top_k", {{"temperature", 1.2}, {"top_k", int64_t{40}}, {"typical_p", 0.8}}},
    {"top_p alone", {{"temperature", 1.0}, {"top_p", 0.7}}, false},
    {"top_k beyond the offer", {{"temperature", 1.0}, {"top_k", int64_t{65}}}, false},
    {"penalties", {{"temperature", 0.7}, {"presence_penalty", 1.0}}, false},
    {"greedy penalties", {{"repeat_penalty", 1.3}}, false},
};

TEST_F(DeviceRowsTest, ChainsGiveTheSameTokens) {
  for (const Case& c : kCases) {
    Request request = make_request(make_prompt(7, 20), 40);
    request.sampling = c.sampling;
    request.chain = c.chain;
    request.seed = 42;
    request.logprobs = true;
    request.n_top_logprobs = 5;
    expect_equal(request, c.name);
    EXPECT_EQ(model.n_rows_given == 0, c.stays) << c.name;
    EXPECT_EQ(model.n_rows_sampled > 0, c.stays) << c.name;
  }
}

TEST_F(DeviceRowsTest, RequestsThatNeedLogitsGetThem) {
  Request biased = make_request(make_prompt(8, 20), 20);
  biased.logit_bias = {{100, 3.0f}};
  expect_equal(biased, "logit_bias");
  EXPECT_EQ(model.n_rows_sampled, 0u);

  Request longer = make_request(make_prompt(8, 20), 20);
  longer.min_tokens = 5;
  expect_equal(longer, "min_tokens");
  EXPECT_EQ(model.n_rows_given, 5u);
  EXPECT_EQ(model.n_rows_sampled, 15u);

  Request verbose = make_request(make_prompt(8, 20), 10);
  verbose.logprobs = true;
  verbose.n_top_logprobs = kOffered + 1;
  expect_equal(verbose, "top_logprobs");
  EXPECT_EQ(model.n_rows_sampled, 0u);
}

// One row has one uniform number: the first tokens of several choices are drawn by the host.
TEST_F(DeviceRowsTest, ChoicesGiveTheSameTokens) {
  Request request = make_request(make_prompt(9, 20), 12);
  request.n = 3;
  request.seed = 5;
  expect_equal(request, "greedy choices");
  EXPECT_EQ(model.n_rows_given, 0u);
  request.sampling = {{"temperature", 1.0}};
  expect_equal(request, "drawn choices");
  EXPECT_EQ(model.n_rows_given, 1u);
  request.sampling = {{"temperature", 1.0}, {"top_k", int64_t{30}}};
  expect_equal(request, "choices drawn from candidates");
  EXPECT_EQ(model.n_rows_given, 0u);
}

TEST_F(DeviceRowsTest, PromptLogprobsAreTheSame) {
  Request request = make_request(make_prompt(10, 25), 2);
  request.prompt_logprobs = true;
  request.n_top_logprobs = 3;
  std::vector<PositionLogprobs> prompts[2];
  for (const uint32_t offered : {0u, kOffered}) {
    offer(offered);
    const auto sink = submit(request);
    sink->wait();
    prompts[offered == 0 ? 0 : 1] = sink->prompt_logprobs();
  }
  ASSERT_EQ(prompts[0].size(), 24u);
  expect_equal(prompts[0], prompts[1], "prompt");
  EXPECT_EQ(model.n_rows_given, 0u);
}

TEST_F(DeviceRowsTest, RowsWithoutNumbersEndTheirSequence) {
  model.nan_token = 50;
  Request request = make_request(make_prompt(11, 20), 10);
  request.prompt[3] = 50;
  expect_equal(request, "NaN");
  EXPECT_THAT(run(request).finish.error, ::testing::HasSubstr("not numbers"));
}

TEST_F(DeviceRowsTest, AnswersAreNotTrusted) {
  for (const int32_t token : {-2, 300, 1 << 30}) {
    model.wrong_token = token;
    const auto found = answers(make_request(make_prompt(12, 20), 10), kOffered);
    EXPECT_EQ(found[0].finish.reason, FinishReason::kError);
    EXPECT_THAT(found[0].finish.error, ::testing::HasSubstr("tokens that do not exist"));
  }
}

// Where fewer tokens than wanted can be drawn, the others follow as they do from the row.
TEST(LogprobsOf, NamesTokensThatAreNoCandidates) {
  constexpr float kNone = -std::numeric_limits<float>::infinity();
  std::vector<float> row = {kNone, 2.0f, kNone, 3.0f, kNone};
  for (const uint32_t n : {0u, 1u, 2u, 4u, 9u}) {
    std::vector<bp_candidate> room(n);
    bp_row_request request{};
    request.choice = BP_CHOOSE_BEST;
    request.token = -1;
    request.n_candidates = n;
    request.candidates = room.data();
    const bp_row_result result = sample_row(row, request);
    const auto found = logprobs_of(request, result, 3, n, static_cast<uint32_t>(row.size()));
    const auto expected = logprobs_of(row, 3, n);
    EXPECT_FLOAT_EQ(found.chosen.logprob, expected.chosen.logprob);
    ASSERT_EQ(found.top.size(), expected.top.size());
    for (size_t i = 0; i < found.top.size(); ++i) {
      EXPECT_EQ(found.top[i].token, expected.top[i].token);
      EXPECT_FLOAT_EQ(found.top[i].logprob, expected.top[i].logprob);
    }
  }
}

TEST(CheckAnswer, LooksAtCandidatesToo) {
  bp_candidate candidates[2] = {{1, 2.0f}, {299, 1.0f}};
  bp_row_request request{};
  request.n_candidates = 2;
  request.candidates = candidates;
  bp_row_result result{};
  result.token = -1;
  result.n_candidates = 2;
  EXPECT_TRUE(check_answer(request, result, 300).ok());
  EXPECT_FALSE(check_answer(request, result, 299).ok());
  result.n_candidates = 3;
  EXPECT_FALSE(check_answer(request, result, 300).ok());
}

}  // namespace
}  // namespace bp::engine::testing
