#pragma once
// A call at work: several prompts of n choices each in an engine, one client waiting for all.

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "core/engine/engine.hpp"
#include "core/server/answer_format.hpp"
#include "core/server/http.hpp"
#include "core/server/refusal.hpp"

namespace bp::server {

// Events come on the engine's thread. Nothing reaches the client before `open`, so that a call of
// which one prompt is refused can still be answered by a status.
class Answer : public std::enable_shared_from_this<Answer> {
 public:
  // The engine outlives all events.
  Answer(std::unique_ptr<AnswerFormat> format, std::shared_ptr<Exchange> exchange,
         engine::Engine& engine, const TextCall& call);
  virtual ~Answer() = default;

  // Receives the events of one prompt.
  [[nodiscard]] std::shared_ptr<engine::Sink> sink(uint32_t prompt);
  // All prompts are queued, under these ids.
  void open(std::vector<engine::RequestId> ids);
  // One could not be queued: from now on events go nowhere.
  void drop();
  // Ends it with an error at once, without waiting for the engine. Only while that is alive.
  void cancel();

 protected:
  // Called with the lock held.
  virtual void add_delta(uint32_t choice, engine::Delta delta) = 0;
  virtual void add_finish(uint32_t choice, engine::FinishReason reason) = 0;
  // What the steps so far brought goes to the client; complete: all choices have ended.
  virtual void deliver(bool complete) = 0;
  virtual void deliver_failure(const Refusal& failure) = 0;

  [[nodiscard]] AnswerFormat& format() { return *format_; }
  [[nodiscard]] Exchange& exchange() { return *exchange_; }
  [[nodiscard]] const UsageTotals& usage() const { return usage_; }

 private:
  friend class PromptSink;
  void on_prompt_logprobs(uint32_t prompt, std::vector<engine::PositionLogprobs> logprobs);
  void on_delta(uint32_t choice, engine::Delta delta);
  void on_finish(uint32_t choice, engine::Finish finish);
  void on_step_end();
  void advance();
  // Ends the requests of which nothing more is wanted.
  void cancel_rest();
  // Ends it without another word; the exchange ends with its last owner.
  void abandon() noexcept;

  std::unique_ptr<AnswerFormat> format_;
  std::shared_ptr<Exchange> exchange_;
  engine::Engine& engine_;
  const uint32_t n_;
  std::mutex mutex_;
  std::vector<engine::RequestId> ids_;
  UsageTotals usage_;
  uint32_t n_unfinished_;
  std::vector<bool> is_closed_;  // by choice: what comes of it counts for nothing
  uint32_t n_open_;              // choices neither closed nor finished
  bool open_ = false;
  bool over_ = false;  // the client has all, or gets nothing more
  std::optional<Refusal> failure_;
};

std::shared_ptr<Answer> make_answer(std::unique_ptr<AnswerFormat> format,
                                    std::shared_ptr<Exchange> exchange, engine::Engine& engine,
                                    const TextCall& call);

}  // namespace bp::server
