// Answers are what the model says, however they were batched, chunked or interrupted.

#include <gmock/gmock.h>

#include <atomic>
#include <future>
#include <mutex>
#include <set>
#include <thread>

#include "fixture.hpp"

namespace bp::engine::testing {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

class GenerationTest : public EngineTest {};

TEST_F(GenerationTest, GreedyFollowsTheModel) {
  start();
  const auto prompt = make_prompt(1, 23);
  const Answer answer = run(make_request(prompt, 30));
  EXPECT_EQ(answer.tokens, greedy(prompt, 30));
  EXPECT_EQ(answer.finish.reason, FinishReason::kLength);
  EXPECT_EQ(answer.finish.usage.n_prompt, 23u);
  EXPECT_EQ(answer.finish.usage.n_generated, 30u);
}

TEST_F(GenerationTest, ChunkedPrefillEqualsWholePrefill) {
  const auto prompt = make_prompt(2, 150);
  const auto expected = greedy(prompt, 20);
  for (const uint32_t max_step_tokens : {1u, 3u, 7u, 64u, 512u}) {
    EngineOptions options;
    options.limits.max_step_tokens = max_step_tokens;
    start(options);
    EXPECT_EQ(run(make_request(prompt, 20)).tokens, expected) << max_step_tokens;
  }
}

TEST_F(GenerationTest, BatchEqualsAlone) {
  start();
  std::vector<Request> requests;
  for (uint32_t i = 0; i < 24; ++i) requests.push_back(make_request(make_prompt(i, 5 + 4 * i), 25));
  const auto sinks = submit_together(std::move(requests));
  for (uint32_t i = 0; i < 24; ++i) {
    EXPECT_EQ(sinks[i]->wait()[0].tokens, greedy(make_prompt(i, 5 + 4 * i), 25)) << i;
  }
  EXPECT_GT(model.max_sequences, 8u);
}

TEST_F(GenerationTest, SinksAreFlushedWhenAllOfAStepAreTold) {
  start();
  std::promise<void> submitted;
  model.before_step = [all_there = submitted.get_future().share()] { all_there.wait(); };
  std::string told;
  std::vector<std::shared_ptr<CollectingSink>> sinks;
  for (const char name : {'a', 'b', 'c'}) {
    auto sink = sinks.emplace_back(std::make_shared<CollectingSink>());
    sink->on_token = [&told, name] { told += name; };
    sink->on_flush = [&told, name] { told += static_cast<char>(name - 'a' + 'A'); };
    ASSERT_TRUE(try_submit(make_request(make_prompt(1, 5), 6), sink).ok());
  }
  submitted.set_value();
  for (const auto& sink : sinks) EXPECT_EQ(sink->wait()[0].tokens.size(), 6u);
  engine.reset();
  // Some are steps ahead of the others if they were taken in before these came.
  EXPECT_THAT(told, MatchesRegex("(aA|bB|cC|abAB|bcBC|abcABC)+"));
  EXPECT_THAT(told, HasSubstr("abcABC"));
}

TEST_F(GenerationTest, EndOfGenerationIsNoPartOfTheText) {
  model.script = [](std::span<const int32_t> history) -> std::optional<int32_t> {
    return history.back() == byte_token('x') ? kEos : byte_token('x');
  };
  start();
  const Answer answer = run(make_request({5}, 10));
  EXPECT_EQ(answer.text, "x");
  EXPECT_THAT(answer.tokens, ElementsAre(byte_token('x'), kEos));
  EXPECT_EQ(answer.finish.reason, FinishReason::kStop);
  EXPECT_EQ(answer.finish.stop_text, "");

  Request longer = make_request({5}, 6);
  longer.min_tokens = 4;
  EXPECT_GE(run(longer).tokens.size(), 4u);
  Request endless = make_request({5}, 6);
  endless.ignore_eos = true;
  EXPECT_EQ(run(endless).tokens.size(), 6u);
}

// A tokenizer may have more tokens than the model has logits: what follows a row is another's.
TEST_F(GenerationTest, EndsBeyondTheLogitsTouchNothing) {
  model.max_candidates = 0;  // rows come as logits
  EngineOptions options;
  const auto n_vocab = static_cast<int32_t>(model.n_vocab);
  options.end_of_generation = {kEos, n_vocab, n_vocab + 1, -1};
  start(options);
  Request waits = make_request(make_prompt(6, 9), 12), other = make_request(make_prompt(7, 9), 12);
  waits.min_tokens = 12;
  other.logit_bias = {{0, 100.0f}};
  const auto sinks = submit_together({waits, other});
  EXPECT_EQ(sinks[0]->wait()[0].tokens.size(), 12u);
  EXPECT_THAT(sinks[1]->wait()[0].tokens, Each(0));
}

TEST_F(GenerationTest, StopTokensEndWithoutText) {
  model.script = [](std::span<const int32_t> history) -> std::optional<int32_t> {
    return static_cast<int32_t>(byte_token('a') + history.size() % 26);
  };
  start();
  Request request = make_request({5}, 20);
  request.stop_tokens = {byte_token('e')};
  const Answer answer = run(request);
  EXPECT_EQ(answer.text, "bcd");
  EXPECT_EQ(answer.finish.reason, FinishReason::kStop);
}

TEST_F(GenerationTest, TheContextEndsTheAnswer) {
  EngineOptions options;
  options.limits.context = 40;
  start(options);
  const Answer answer = run(make_request(make_prompt(3, 30), 0));
  EXPECT_EQ(answer.tokens.size(), 10u);
  EXPECT_EQ(answer.finish.reason, FinishReason::kLength);
}

TEST_F(GenerationTest, LogitBiasForbidsAndForces) {
  start();
  const auto prompt = make_prompt(4, 9);
  const int32_t best = greedy(prompt, 1)[0];
  Request request = make_request(prompt, 1);
  request.logit_bias = {{best, -100.0f}};
  EXPECT_NE(run(request).tokens[0], best);
  request.logit_bias = {{77, 100.0f}};
  EXPECT_EQ(run(request).tokens[0], 77);
}

TEST_F(GenerationTest, AKnownGreatestLogitChangesNoAnswer) {
  model.max_candidates = 0;  // all rows come as logits
  Request plain = make_request(make_prompt(5, 20), 30);
  Request biased = plain, forked = plain;
  const int32_t best = greedy(plain.prompt, 1)[0];
  biased.logit_bias = {{best, -100.0f}};
  forked.n = 3;
  forked.logprobs = true;
  std::vector<Request> requests = {plain, biased, forked};
  for (const double penalty : {0.0, 2.0}) {
    requests.push_back(plain);
    requests.back().sampling = {{"temperature", 0.9}, {"top_p", 0.95}};
    requests.back().sampling["presence_penalty"] = penalty;
  }
  for (const Request& request : requests) {
    std::vector<Answer> answers[2];
    for (const bool told : {false, true}) {
      engine.reset();
      model.tells_greatest = told;
      start();
      answers[told] = submit(request)->wait(request.n);
    }
    ASSERT_EQ(answers[true].size(), answers[false].size());
    for (size_t i = 0; i < answers[true].size(); ++i) {
      EXPECT_EQ(answers[true][i].tokens.size(), 30u) << answers[true][i].finish.error;
      EXPECT_EQ(answers[true][i].tokens, answers[false][i].tokens) << i;
    }
  }
}

TEST_F(GenerationTest, SameSeedSameTextWhateverElseRuns) {
  EngineOptions options;
  options.defaults = {{"temperature", 1.0}};
  start(options);
  Request request = make_request(make_prompt(5, 20), 40);
  request.seed = 42;
  request.sampling = {{"temperature", 0.9}, {"top_k", int64_t{40}}, {"top_p", 0.95}};
  const Answer alone = run(request);
  for (uint32_t i = 0; i < 9; ++i) {
    Request other = make_request(make_prompt(100 + i, 30), 40);
    other.seed = i;
    submit(other);
  }
  EXPECT_EQ(run(request).tokens, alone.tokens);
  request.seed = 43;
  EXPECT_NE(run(request).tokens, alone.tokens);
  wait_until_idle();
}

TEST_F(GenerationTest, DensePathDrawsBySeedToo) {
  EngineOptions options;
  options.defaults = {{"temperature", 1.0}};
  start(options);
  Request request = make_request(make_prompt(6, 10), 30);
  request.seed = 7;
  const auto first = run(request).tokens;
  EXPECT_EQ(run(request).tokens, first);
  EXPECT_NE(first, greedy(request.prompt, 30));
}

TEST_F(GenerationTest, ChoicesShareThePromptAndDiffer) {
  EngineOptions options;
  options.defaults = {{"temperature", 1.0}};
  start(options);
  Request request = make_request(make_prompt(7, 22), 20);  // ends within a block of 4
  request.n = 4;
  request.seed = 9;
  const auto answers = submit(request)->wait(4);
  EXPECT_NE(answers[0].tokens, answers[1].tokens);
  EXPECT_LT(model.n_computed_tokens, 22u + 4 * 20);
  EXPECT_EQ(model.n_copies, 3u);
  EXPECT_EQ(submit(request)->wait(4)[3].tokens, answers[3].tokens);
  request.n = 1;
  EXPECT_EQ(run(request).tokens, answers[0].tokens);
}

TEST_F(GenerationTest, GreedyChoicesAreEqual) {
  start();
  Request request = make_request(make_prompt(8, 13), 17);
  request.n = 5;
  for (const Answer& answer : submit(request)->wait(5)) {
    EXPECT_EQ(answer.tokens, greedy(request.prompt, 17));
  }
}

TEST_F(GenerationTest, PreemptionKeepsTheText) {
  EngineOptions options;
  options.n_blocks = 31;  // 120 tokens; six sequences want 6 * 50
  options.limits.context = 100;
  start(options);
  std::vector<Request> requests;
  for (uint32_t i = 0; i < 6; ++i) requests.push_back(make_request(make_prompt(i, 10), 40));
  const auto sinks = submit_together(std::move(requests));
  for (uint32_t i = 0; i < 6; ++i) {
    const Answer answer = sinks[i]->wait()[0];
    EXPECT_EQ(answer.finish.reason, FinishReason::kLength) << answer.finish.error;
    EXPECT_EQ(answer.tokens, greedy(make_prompt(i, 10), 40)) << i;
  }
  EXPECT_GT(engine->stats().preemptions.get(), 0u);
  EXPECT_EQ(engine->stats().kv_blocks_used.get(), 0u);
}

TEST_F(GenerationTest, ForksSurvivePreemption) {
  EngineOptions options;
  options.n_blocks = 25;
  options.limits.context = 90;
  options.defaults = {{"temperature", 1.0}};
  Request request = make_request(make_prompt(9, 18), 40);
  request.n = 4;
  request.seed = 3;
  start(options);
  const auto tight = submit(request)->wait(4);
  EXPECT_GT(engine->stats().preemptions.get(), 0u);
  options.n_blocks = 200;
  start(options);
  const auto roomy = submit(request)->wait(4);
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(tight[i].tokens, roomy[i].tokens) << i;
}

// Penalties leave none of a choice's own tokens among the best, and say nothing of the others'.
TEST_F(GenerationTest, ForksHaveHistoriesOfTheirOwn) {
  Request request = make_request(make_prompt(9, 18), 60);
  request.sampling = {{"temperature", 2.0},
                      {"top_k", int64_t{8}},
                      {"repeat_penalty", 100.0},
                      {"repeat_last_n", int64_t{-1}}};
  request.n = 6;
  start();
  std::set<int32_t> seen;
  bool is_shared = false;
  for (const Answer& answer : submit(request)->wait(6)) {
    const std::set<int32_t> own(answer.tokens.begin(), answer.tokens.end());
    EXPECT_EQ(own.size(), answer.tokens.size());
    for (size_t i = 1; i < answer.tokens.size(); ++i) {
      is_shared = is_shared || seen.contains(answer.tokens[i]);
    }
    seen.insert(own.begin(), own.end());
  }
  EXPECT_TRUE(is_shared);
  request.sampling.erase("repeat_penalty");
  request.n = 1;
  const auto tokens = run(request).tokens;
  EXPECT_LT(std::set<int32_t>(tokens.begin(), tokens.end()).size(), tokens.size());
}

TEST_F(GenerationTest, HigherPriorityRunsFirst) {
  EngineOptions options;
  options.limits.max_sequences = 1;
  options.limits.max_output_rows = 16;
  start(options);
  std::atomic<bool> held{true};
  std::atomic<bool> begun{false};
  model.before_step = [&] {
    begun = true;
    while (held) std::this_thread::yield();
  };
  // The others arrive while its step is at work: had they come before it, the first to run would be
  // the highest priority of those that happened to be there.
  auto running = submit(make_request(make_prompt(1, 4), 10));
  while (!begun) std::this_thread::yield();
  std::mutex mutex;
  std::vector<int> order;
  std::vector<std::shared_ptr<CollectingSink>> sinks;
  for (const int priority : {0, 5, 9}) {
    Request request = make_request(make_prompt(static_cast<uint32_t>(priority), 5), 1);
    request.priority = priority;
    auto sink = std::make_shared<CollectingSink>();
    sink->on_token = [&, priority] {
      const std::scoped_lock lock(mutex);
      order.push_back(priority);
    };
    ASSERT_TRUE(try_submit(request, sink).ok());
    sinks.push_back(sink);
  }
  held = false;
  running->wait();
  for (const auto& sink : sinks) sink->wait();
  EXPECT_THAT(order, ElementsAre(9, 5, 0));
}

}  // namespace
}  // namespace bp::engine::testing
