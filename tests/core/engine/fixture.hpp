#pragma once
// An engine over the fake backend, with the built sampler and scheduler plugins.

#include <gtest/gtest.h>

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/engine/engine.hpp"
#include "core/engine/parts.hpp"
#include "core/engine/stats.hpp"
#include "core/text/tokenizer.hpp"
#include "fake_backend.hpp"

namespace bp::engine::testing {

// Tokens of the test vocabulary: <unk>, <s>, </s>, 256 bytes, then pieces.
inline constexpr int32_t kEos = 2;
inline constexpr int32_t kFirstByte = 3;
[[nodiscard]] constexpr int32_t byte_token(char c) {
  return kFirstByte + static_cast<unsigned char>(c);
}
[[nodiscard]] std::vector<int32_t> byte_tokens(const std::string& text);

struct Answer {
  std::string text;
  std::vector<int32_t> tokens;
  std::vector<PositionLogprobs> logprobs;
  std::vector<std::string> pieces;  // texts as they came
  Finish finish{};
  bool finished = false;
};

class CollectingSink final : public Sink {
 public:
  void on_prompt_logprobs(std::vector<PositionLogprobs> logprobs) override;
  void on_delta(uint32_t choice, Delta delta) override;
  void on_finish(uint32_t choice, Finish finish) override;
  void flush() override {
    if (on_flush) on_flush();
  }

  // Waits for n choices; fails the test where they do not end.
  std::vector<Answer> wait(uint32_t n = 1);
  void wait_for_tokens(size_t n);
  [[nodiscard]] std::vector<PositionLogprobs> prompt_logprobs();
  [[nodiscard]] uint32_t n_prompt_logprobs_calls();
  std::function<void()> on_token, on_flush;  // on the engine's thread

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<uint32_t, Answer> answers_;
  std::vector<PositionLogprobs> prompt_logprobs_;
  uint32_t n_prompt_calls_ = 0;
  uint32_t n_finished_ = 0;
};

struct EngineOptions {
  uint32_t n_blocks = 200;
  uint32_t n_state_entries = 0;  // with model.has_state
  Limits limits{.context = 256, .max_step_tokens = 64, .max_sequences = 16, .max_output_rows = 16};
  const bp_scheduler_factory* scheduler = nullptr;  // null: the fcfs plugin
  plugin::ParamMap defaults{{"temperature", 0.0}};
  plugin::ThreadTeam* team = nullptr;
  std::vector<int32_t> end_of_generation = {kEos};
};

class EngineTest : public ::testing::Test {
 protected:
  ~EngineTest() override;
  void start(const EngineOptions& options = {});
  Result<RequestId> try_submit(Request request, const std::shared_ptr<CollectingSink>& sink);
  std::shared_ptr<CollectingSink> submit(Request request, RequestId* id = nullptr);
  // The engine is idle; its next step waits until all of them are there.
  std::vector<std::shared_ptr<CollectingSink>> submit_together(std::vector<Request> requests);
  // One choice from start to end.
  Answer run(Request request);
  void wait_until_idle();
  // The model's own answer, computed without an engine.
  [[nodiscard]] std::vector<int32_t> greedy(std::vector<int32_t> history, uint32_t n) const;

  FakeModel model;
  std::unique_ptr<text::Tokenizer> tokenizer;
  std::unique_ptr<Engine> engine;
};

[[nodiscard]] std::vector<int32_t> make_prompt(uint32_t seed, uint32_t n);
[[nodiscard]] Request make_request(std::vector<int32_t> prompt, uint32_t max_tokens);

}  // namespace bp::engine::testing
