// A fault ends what it touches and nothing else; cancelled requests leave nothing behind.

#include <gmock/gmock.h>

#include <atomic>
#include <chrono>
#include <random>
#include <stdexcept>
#include <thread>

#include "fixture.hpp"

namespace bp::engine::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

class FaultTest : public EngineTest {
 protected:
  void expect_healthy_answer() {
    const auto prompt = make_prompt(500, 17);
    const Answer answer = run(make_request(prompt, 12));
    EXPECT_EQ(answer.tokens, greedy(prompt, 12)) << answer.finish.error;
    wait_until_idle();
    EXPECT_EQ(engine->stats().kv_blocks_used.get(), 0u);
    EXPECT_EQ(engine->stats().requests_running.get(), 0u);
    EXPECT_EQ(engine->stats().requests_waiting.get(), 0u);
  }
};

TEST_F(FaultTest, RandomCancelsLeaveNothingBehind) {
  EngineOptions options;
  options.limits.max_queue = 300;
  options.n_blocks = 100;
  start(options);
  model.delay_us = 200;
  std::mt19937 random(17);
  std::vector<std::shared_ptr<CollectingSink>> sinks;
  std::vector<uint32_t> n_choices;
  for (uint32_t i = 0; i < 200; ++i) {
    Request request = make_request(make_prompt(i % 20, 4 + random() % 80), 1 + random() % 60);
    request.n = 1 + random() % 3;
    n_choices.push_back(request.n);
    RequestId id = 0;
    sinks.push_back(submit(request, &id));
    if (random() % 4 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 1500));
    engine->cancel(random() % 3 == 0 ? 1 + random() % id : id);
  }
  for (RequestId id = 1; id <= 200; ++id) engine->cancel(id);
  for (uint32_t i = 0; i < 200; ++i) sinks[i]->wait(n_choices[i]);
  model.delay_us = 0;
  expect_healthy_answer();
}

TEST_F(FaultTest, CancelReachesTheStepInFlight) {
  start();
  model.delay_us = 5'000'000;
  RequestId id = 0;
  auto sink = submit(make_request(make_prompt(1, 10), 10), &id);
  while (model.n_steps == 0) std::this_thread::sleep_for(1ms);
  const auto begin = std::chrono::steady_clock::now();
  engine->cancel(id);
  EXPECT_EQ(sink->wait()[0].finish.reason, FinishReason::kCancelled);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 2s);
  model.delay_us = 0;
  expect_healthy_answer();
}

TEST_F(FaultTest, ACancelTouchesNoOther) {
  start();
  model.delay_us = 5000;
  auto kept = submit(make_request(make_prompt(1, 10), 30));
  RequestId id = 0;
  auto cancelled = submit(make_request(make_prompt(2, 10), 30), &id);
  cancelled->wait_for_tokens(3);
  engine->cancel(id);
  EXPECT_EQ(cancelled->wait()[0].finish.reason, FinishReason::kCancelled);
  EXPECT_EQ(kept->wait()[0].tokens, greedy(make_prompt(1, 10), 30));
}

TEST_F(FaultTest, AFailingStepEndsItsOwnSequences) {
  start();
  for (int n = 0; n < 12; ++n) {
    model.fail_at = n;
    const Answer answer = run(make_request(make_prompt(3, 20), 8));
    if (n < 8) {
      EXPECT_EQ(answer.finish.reason, FinishReason::kError) << n;
      EXPECT_THAT(answer.finish.error, HasSubstr("told to fail"));
      EXPECT_EQ(answer.tokens.size(), static_cast<size_t>(n));
    }
    model.fail_at = -1;
    expect_healthy_answer();
  }
  EXPECT_EQ(engine->stats().failed_steps.get(), 8u);
}

TEST_F(FaultTest, AFailingPromptEndsAllChoices) {
  start();
  model.fail_at = 0;
  Request request = make_request(make_prompt(3, 20), 8);
  request.n = 3;
  for (const Answer& answer : submit(request)->wait(3)) {
    EXPECT_EQ(answer.finish.reason, FinishReason::kError);
  }
  expect_healthy_answer();
}

TEST_F(FaultTest, NanEndsOneSequenceAndIsNotCached) {
  EngineOptions options;
  options.limits.max_step_tokens = 8;  // most blocks are full before the row that shows the NaN
  start(options);
  model.nan_token = 295;
  auto prompt = make_prompt(4, 30);
  prompt[2] = 295;
  auto good = submit(make_request(make_prompt(5, 30), 30));
  auto bad = submit(make_request(prompt, 30));
  EXPECT_EQ(bad->wait()[0].finish.reason, FinishReason::kError);
  EXPECT_EQ(good->wait()[0].tokens, greedy(make_prompt(5, 30), 30));
  model.nan_token = -1;
  const Answer again = run(make_request(prompt, 5));
  EXPECT_EQ(again.finish.usage.n_cached, 0u);
  EXPECT_EQ(again.tokens, greedy(prompt, 5));
}

TEST_F(FaultTest, AGreatestLogitThatDoesNotExistEndsTheSequence) {
  model.max_candidates = 0;  // all rows come as logits
  start();
  for (const int32_t wrong : {-2, 300, 1 << 30}) {
    model.wrong_greatest = wrong;
    const Answer answer = run(make_request(make_prompt(6, 20), 10));
    EXPECT_EQ(answer.finish.reason, FinishReason::kError);
    EXPECT_THAT(answer.finish.error, HasSubstr("greatest logit that does not exist"));
  }
  model.wrong_greatest = -1;
  expect_healthy_answer();
}

TEST_F(FaultTest, ALostDeviceFailsAllRequestsButNotTheProcess) {
  start();
  model.fail_status = BP_DEVICE_LOST;
  model.fail_at = 5;
  std::vector<Request> requests;
  for (uint32_t i = 0; i < 20; ++i) requests.push_back(make_request(make_prompt(i, 9), 100));
  const auto sinks = submit_together(std::move(requests));
  for (const auto& sink : sinks) EXPECT_EQ(sink->wait()[0].finish.reason, FinishReason::kError);
  while (engine->healthy()) std::this_thread::sleep_for(1ms);
  auto late = std::make_shared<CollectingSink>();
  const auto refused = try_submit(make_request({5}, 1), late);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().code(), Code::kDeviceLost);
}

TEST_F(FaultTest, AThrowingStageEndsTheRequestsAtWork) {
  start();
  std::atomic<bool> thrown{false};
  auto sink = std::make_shared<CollectingSink>();
  sink->on_token = [&] {
    if (!thrown.exchange(true)) throw std::bad_alloc();
  };
  ASSERT_TRUE(try_submit(make_request(make_prompt(1, 10), 10), sink).ok());
  EXPECT_EQ(sink->wait()[0].finish.reason, FinishReason::kError);
  expect_healthy_answer();
}

TEST_F(FaultTest, AFullQueueRefuses) {
  EngineOptions options;
  options.limits.max_sequences = 1;
  options.limits.max_queue = 3;
  start(options);
  model.delay_us = 10000;
  auto running = submit(make_request(make_prompt(1, 4), 200));
  running->wait_for_tokens(1);
  std::vector<RequestId> ids(3);
  std::vector<std::shared_ptr<CollectingSink>> queued;
  for (RequestId& id : ids) queued.push_back(submit(make_request({7}, 1), &id));
  const auto refused = try_submit(make_request({7}, 1), std::make_shared<CollectingSink>());
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().code(), Code::kCancelled);
  engine->cancel(ids[1]);
  EXPECT_EQ(queued[1]->wait()[0].finish.reason, FinishReason::kCancelled);
  EXPECT_TRUE(try_submit(make_request({7}, 1), std::make_shared<CollectingSink>()).ok());
}

TEST_F(FaultTest, DrainingFinishesWhatRuns) {
  start();
  model.delay_us = 500;
  auto sink = submit(make_request(make_prompt(1, 4), 30));
  engine->drain();
  const auto refused = try_submit(make_request({7}, 1), std::make_shared<CollectingSink>());
  EXPECT_EQ(refused.status().code(), Code::kCancelled);
  EXPECT_EQ(sink->wait()[0].tokens.size(), 30u);
  wait_until_idle();
}

TEST_F(FaultTest, DestructionCancelsWhatRuns) {
  start();
  model.delay_us = 10000;
  auto running = submit(make_request(make_prompt(1, 4), 200));
  Request forked = make_request(make_prompt(2, 200), 20);
  forked.n = 3;
  auto queued = submit(forked);
  running->wait_for_tokens(1);
  engine.reset();
  EXPECT_EQ(running->wait()[0].finish.reason, FinishReason::kCancelled);
  EXPECT_EQ(queued->wait(3)[2].finish.reason, FinishReason::kCancelled);
}

TEST_F(FaultTest, ManyThreadsSubmitAndCancel) {
  start();
  std::vector<std::thread> threads;
  std::atomic<uint32_t> n_finished{0};
  for (uint32_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      for (uint32_t i = 0; i < 30; ++i) {
        RequestId id = 0;
        auto sink = submit(make_request(make_prompt(random() % 8, 5 + random() % 40), 15), &id);
        if (random() % 2 == 0) engine->cancel(id);
        (void)engine->stats().requests_waiting.get();
        sink->wait();
        ++n_finished;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(n_finished, 120u);
  expect_healthy_answer();
}

TEST_F(FaultTest, RequestsThatCannotBeServedAreRefusedAtTheDoor) {
  EngineOptions options;
  options.n_blocks = 11;  // 40 tokens
  start(options);
  EXPECT_EQ(engine->context(), 40u);
  const auto refusal = [&](const std::function<void(Request&)>& change) {
    Request request = make_request(make_prompt(1, 10), 5);
    change(request);
    const auto submitted = try_submit(request, std::make_shared<CollectingSink>());
    EXPECT_FALSE(submitted.ok());
    return submitted.ok() ? std::string() : submitted.status().message();
  };
  EXPECT_THAT(refusal([](Request& r) { r.prompt = make_prompt(1, 40); }), HasSubstr("context"));
  EXPECT_THAT(refusal([](Request& r) { r.prompt.clear(); }), HasSubstr("prompt"));
  EXPECT_THAT(refusal([](Request& r) { r.prompt[3] = 300; }), HasSubstr("vocabulary"));
  EXPECT_THAT(refusal([](Request& r) { r.prompt[3] = -1; }), HasSubstr("vocabulary"));
  EXPECT_THAT(refusal([](Request& r) { r.stop_tokens = {9999}; }), HasSubstr("stop_tokens"));
  EXPECT_THAT(refusal([](Request& r) { r.logit_bias = {{-4, 1.0f}}; }), HasSubstr("logit_bias"));
  EXPECT_THAT(refusal([](Request& r) { r.n = 0; }), HasSubstr("n:"));
  EXPECT_THAT(refusal([](Request& r) { r.n = 100000; }), HasSubstr("n:"));
  EXPECT_THAT(refusal([](Request& r) { r.stop = {""}; }), HasSubstr("stop"));
  EXPECT_THAT(refusal([](Request& r) { r.chain = {"top_q"}; }), HasSubstr("top_q"));
  EXPECT_THAT(refusal([](Request& r) { r.sampling = {{"nonsense", 1.0}}; }), HasSubstr("nonsense"));
  EXPECT_THAT(refusal([](Request& r) { r.sampling = {{"top_p", 1.5}}; }), HasSubstr("top_p"));
  EXPECT_THAT(refusal([](Request& r) {
                r.sampling = {{"top_k", std::string("x")}};
              }),
              HasSubstr("top_k"));
  EXPECT_THAT(refusal([](Request& r) {
                r.chain = {"samplers/top_k"};
                r.sampling = {{"min_p", 0.5}};
              }),
              HasSubstr("min_p"));
  EXPECT_EQ(run(make_request(make_prompt(1, 39), 5)).tokens.size(), 1u);
}

}  // namespace
}  // namespace bp::engine::testing
