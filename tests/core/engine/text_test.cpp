// Text, stop strings and logprobs of answers.

#include <gmock/gmock.h>

#include <cmath>

#include "core/engine/stop_matcher.hpp"
#include "fixture.hpp"

namespace bp::engine::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

class TextTest : public EngineTest {
 protected:
  // The model says this text, byte by byte, after a prompt of one token.
  void say(const std::string& text) {
    model.script = [text](std::span<const int32_t> history) -> std::optional<int32_t> {
      const size_t i = history.size() - 1;
      return i < text.size() ? byte_token(text[i]) : kEos;
    };
  }
  Answer ask(std::vector<std::string> stop, uint32_t max_tokens = 100) {
    Request request = make_request({5}, max_tokens);
    request.stop = std::move(stop);
    return run(request);
  }
};

TEST_F(TextTest, StopStringsCrossTokenBorders) {
  say("one two three");
  start();
  const Answer answer = ask({"two t"});
  EXPECT_EQ(answer.text, "one ");
  EXPECT_EQ(answer.finish.reason, FinishReason::kStop);
  EXPECT_EQ(answer.finish.stop_text, "two t");
  EXPECT_THAT(answer.tokens, SizeIs(9));
}

TEST_F(TextTest, TextHeldBackComesWhenNoStopFollows) {
  say("one twosome");
  start();
  const Answer answer = ask({"two t", "some!"});
  EXPECT_EQ(answer.text, "one twosome");
  EXPECT_EQ(answer.finish.reason, FinishReason::kStop);
  EXPECT_EQ(answer.finish.stop_text, "");
  EXPECT_EQ(ask({"three"}, 7).text, "one two");
  EXPECT_EQ(ask({"two"}, 6).text, "one tw");
}

TEST_F(TextTest, NoStopBeforeMinTokens) {
  say("ab-cd-ef");
  start();
  Request request = make_request({5}, 20);
  request.stop = {"-"};
  request.min_tokens = 4;
  EXPECT_EQ(run(request).text, "ab-cd");
}

TEST_F(TextTest, CharactersAreNeverHalved) {
  say("a\xC3\xA9\xE2\x82\xAC z");
  start();
  const Answer answer = ask({});
  EXPECT_THAT(answer.pieces, ElementsAre("a", "\xC3\xA9", "\xE2\x82\xAC", " ", "z"));
  EXPECT_EQ(ask({}, 2).text, "a\xEF\xBF\xBD");
}

TEST(StopMatcherTest, FirstOfSeveralWinsAndNothingFollows) {
  StopMatcher matcher({"abc", "bX", "zz"});
  EXPECT_EQ(matcher.push("1ab"), "1");
  EXPECT_EQ(matcher.push("X"), "a");
  EXPECT_EQ(matcher.found(), "bX");
  EXPECT_EQ(matcher.push("more"), "");
  EXPECT_EQ(matcher.flush(), "");
}

TEST(StopMatcherTest, TheFirstToBeCompleteWinsWhereverItIsCut) {
  for (const std::vector<std::string>& pieces : {std::vector<std::string>{"xabcd"},
                                                 {"xa", "bcd"},
                                                 {"xab", "c", "d"},
                                                 {"x", "a", "b", "cd"}}) {
    StopMatcher matcher({"abcd", "bc", "abc"});
    std::string out;
    for (const std::string& piece : pieces) out += matcher.push(piece);
    EXPECT_EQ(out, "x");
    EXPECT_EQ(matcher.found(), "abc");
  }
}

TEST(StopMatcherTest, EveryCutGivesTheSameText) {
  const std::string text = "aaabaabaaacaab";
  for (size_t i = 0; i <= text.size(); ++i) {
    for (size_t j = i; j <= text.size(); ++j) {
      StopMatcher matcher({"aabaaa", "aac"});
      std::string out = matcher.push(text.substr(0, i));
      out += matcher.push(text.substr(i, j - i));
      out += matcher.push(text.substr(j));
      EXPECT_EQ(out + matcher.flush(), "aaab");
      EXPECT_EQ(matcher.found(), "aabaaa");
    }
  }
}

double log_softmax(const std::vector<float>& row, int32_t token) {
  double sum = 0;
  for (const float x : row) sum += std::exp(static_cast<double>(x));
  return static_cast<double>(row[static_cast<size_t>(token)]) - std::log(sum);
}

TEST_F(TextTest, LogprobsAreTheRawOnes) {
  start();
  Request request = make_request(make_prompt(1, 12), 10);
  request.logprobs = true;
  request.n_top_logprobs = 5;
  request.sampling = {{"temperature", 0.7}, {"top_k", int64_t{3}}};
  request.logit_bias = {{9, 30.0f}};
  const Answer answer = run(request);
  ASSERT_THAT(answer.logprobs, SizeIs(10));
  std::vector<int32_t> history = request.prompt;
  for (size_t i = 0; i < 10; ++i) {
    const std::vector<float> row = model.logits(history);
    const PositionLogprobs& p = answer.logprobs[i];
    EXPECT_EQ(p.chosen.token, answer.tokens[i]);
    EXPECT_NEAR(static_cast<double>(p.chosen.logprob), log_softmax(row, p.chosen.token), 1e-5);
    ASSERT_THAT(p.top, SizeIs(5));
    EXPECT_EQ(p.top[0].token, std::max_element(row.begin(), row.end()) - row.begin());
    for (size_t k = 1; k < 5; ++k) EXPECT_GE(p.top[k - 1].logprob, p.top[k].logprob);
    history.push_back(answer.tokens[i]);
  }
}

TEST_F(TextTest, AllLogprobsTogetherAreCertain) {
  start();
  Request request = make_request(make_prompt(1, 12), 1);
  request.logprobs = true;
  request.n_top_logprobs = model.n_vocab;
  const Answer answer = run(request);
  double sum = 0;
  for (const auto& entry : answer.logprobs[0].top) {
    sum += std::exp(static_cast<double>(entry.logprob));
  }
  EXPECT_NEAR(sum, 1.0, 1e-5);
}

TEST_F(TextTest, PromptLogprobsCoverEveryTokenButTheFirst) {
  EngineOptions options;
  options.limits.max_output_rows = 16;  // the prompt has more
  start(options);
  const auto prompt = make_prompt(2, 90);
  run(make_request(prompt, 3));  // its blocks are cached now
  for (const bool prompt_only : {false, true}) {
    Request request = make_request(prompt, 3);
    request.prompt_logprobs = true;
    request.prompt_only = prompt_only;
    request.n_top_logprobs = 2;
    auto sink = submit(request);
    const Answer answer = sink->wait()[0];
    EXPECT_EQ(answer.tokens, prompt_only ? std::vector<int32_t>{} : greedy(prompt, 3));
    EXPECT_EQ(answer.finish.usage.n_cached, 0u);
    EXPECT_EQ(answer.finish.reason, FinishReason::kLength);
    const auto logprobs = sink->prompt_logprobs();
    ASSERT_THAT(logprobs, SizeIs(89));
    EXPECT_EQ(sink->n_prompt_logprobs_calls(), 1u);
    for (size_t i = 0; i < 89; ++i) {
      const auto row = model.logits(std::span(prompt).first(i + 1));
      EXPECT_EQ(logprobs[i].chosen.token, prompt[i + 1]);
      EXPECT_NEAR(static_cast<double>(logprobs[i].chosen.logprob), log_softmax(row, prompt[i + 1]),
                  1e-5);
    }
  }
}

TEST_F(TextTest, PromptLogprobsSurvivePreemption) {
  EngineOptions options;
  options.n_blocks = 31;
  options.limits.context = 100;
  start(options);
  std::vector<Request> requests;
  for (uint32_t i = 0; i < 5; ++i) {
    requests.push_back(make_request(make_prompt(i, 20), 50));
    requests.back().prompt_logprobs = true;
  }
  const auto sinks = submit_together(std::move(requests));
  for (uint32_t i = 0; i < 5; ++i) {
    EXPECT_EQ(sinks[i]->wait()[0].tokens, greedy(make_prompt(i, 20), 50));
    EXPECT_THAT(sinks[i]->prompt_logprobs(), SizeIs(19));
    EXPECT_EQ(sinks[i]->n_prompt_logprobs_calls(), 1u);
  }
  EXPECT_GT(engine->stats().preemptions.get(), 0u);
}

}  // namespace
}  // namespace bp::engine::testing
