#include "core/server/answer.hpp"

#include <exception>
#include <utility>

#include "core/server/answer_parts.hpp"
#include "core/server/error_body.hpp"

namespace bp::server {

namespace {

Refusal cancelled_by_server() {
  return {503, "the request was cancelled: the server is shutting down", {}, {}};
}

}  // namespace

class PromptSink : public engine::Sink {
 public:
  PromptSink(std::shared_ptr<Answer> answer, uint32_t prompt)
      : answer_(std::move(answer)), prompt_(prompt) {}

  void on_prompt_logprobs(std::vector<engine::PositionLogprobs> logprobs) override {
    guarded([&] { answer_->on_prompt_logprobs(prompt_, std::move(logprobs)); });
  }
  void on_delta(uint32_t choice, engine::Delta delta) override {
    guarded([&] { answer_->on_delta(prompt_ * answer_->n_ + choice, std::move(delta)); });
  }
  void on_finish(uint32_t choice, engine::Finish finish) override {
    guarded([&] { answer_->on_finish(prompt_ * answer_->n_ + choice, std::move(finish)); });
  }
  void on_step_end() override {
    guarded([&] { answer_->on_step_end(); });
  }
  void flush() override {
    guarded([&] { answer_->exchange().flush(); });
  }

 private:
  // The engine's thread gets no exception: where memory is short this answer ends, not the step.
  template <class F>
  void guarded(F&& f) const {
    try {
      f();
    } catch (const std::exception&) {
      answer_->abandon();
    }
  }

  std::shared_ptr<Answer> answer_;
  uint32_t prompt_;
};

Answer::Answer(std::unique_ptr<AnswerFormat> format, std::shared_ptr<Exchange> exchange,
               engine::Engine& engine, const TextCall& call)
    : format_(std::move(format)),
      exchange_(std::move(exchange)),
      engine_(engine),
      n_(call.request.n),
      n_unfinished_(static_cast<uint32_t>(call.prompts.size()) * call.request.n),
      is_closed_(n_unfinished_, false),
      n_open_(n_unfinished_) {}

std::shared_ptr<engine::Sink> Answer::sink(uint32_t prompt) {
  return std::make_shared<PromptSink>(shared_from_this(), prompt);
}

void Answer::open(std::vector<engine::RequestId> ids) {
  const std::scoped_lock lock(mutex_);
  ids_ = std::move(ids);
  open_ = true;
  advance();
  exchange_->flush();
}

void Answer::drop() {
  const std::scoped_lock lock(mutex_);
  over_ = true;
}

void Answer::cancel() {
  const std::scoped_lock lock(mutex_);
  if (!failure_) failure_ = cancelled_by_server();
  advance();
  exchange_->flush();
}

void Answer::abandon() noexcept {
  const std::scoped_lock lock(mutex_);
  over_ = true;
  try {
    for (const engine::RequestId id : ids_) engine_.cancel(id);
  } catch (const std::exception&) {
    return;  // it goes on for nobody
  }
}

void Answer::on_prompt_logprobs(uint32_t prompt, std::vector<engine::PositionLogprobs> logprobs) {
  const std::scoped_lock lock(mutex_);
  format_->set_prompt_logprobs(prompt, std::move(logprobs));
}

void Answer::on_delta(uint32_t choice, engine::Delta delta) {
  const std::scoped_lock lock(mutex_);
  if (over_ || failure_ || is_closed_[choice]) return;
  usage_.n_generated += static_cast<uint32_t>(delta.tokens.size());
  add_delta(choice, std::move(delta));
  if (format_->is_over(choice)) {
    is_closed_[choice] = true;
    --n_open_;
  }
}

void Answer::on_finish(uint32_t choice, engine::Finish finish) {
  const std::scoped_lock lock(mutex_);
  if (over_ || failure_) return;
  // The choices of a prompt share it.
  if (choice % n_ == 0) {
    usage_.n_prompt += finish.usage.n_prompt;
    usage_.n_cached += finish.usage.n_cached;
  }
  if (is_closed_[choice]) {
    finish.reason = engine::FinishReason::kStop;
  } else {
    --n_open_;
  }
  if (finish.reason == engine::FinishReason::kError) {
    failure_ = Refusal{500, "the answer could not be completed: " + finish.error, {}, {}};
  } else if (finish.reason == engine::FinishReason::kCancelled) {
    failure_ = cancelled_by_server();
  } else {
    add_finish(choice, finish.reason);
    --n_unfinished_;
  }
}

void Answer::on_step_end() {
  const std::scoped_lock lock(mutex_);
  advance();
}

void Answer::advance() {
  if (!open_ || over_) return;
  if (failure_) {
    over_ = true;
    for (const engine::RequestId id : ids_) engine_.cancel(id);
    return deliver_failure(*failure_);
  }
  over_ = n_unfinished_ == 0;
  if (n_open_ == 0 && !over_) cancel_rest();
  deliver(over_);
}

void Answer::cancel_rest() {
  for (const engine::RequestId id : std::exchange(ids_, {})) engine_.cancel(id);
}

namespace {

class WholeAnswer : public Answer {
 public:
  WholeAnswer(std::unique_ptr<AnswerFormat> format, std::shared_ptr<Exchange> exchange,
              engine::Engine& engine, const TextCall& call)
      : Answer(std::move(format), std::move(exchange), engine, call),
        choices_(call.prompts.size() * call.request.n),
        is_text_alone_(!call.request.logprobs && !call.echo && !call.return_token_ids) {}

 private:
  void add_delta(uint32_t choice, engine::Delta delta) override {
    ChoiceText& c = choices_[choice];
    c.text += delta.text;
    format().read(choice, delta.text);
    c.tokens.insert(c.tokens.end(), delta.tokens.begin(), delta.tokens.end());
    for (auto& position : delta.logprobs) c.logprobs.push_back(std::move(position));
  }
  void add_finish(uint32_t choice, engine::FinishReason reason) override {
    choices_[choice].reason = reason;
  }
  void deliver(bool complete) override {
    if (!complete) return;
    if (is_short()) return exchange().send(make());
    // No event changes anything any more.
    exchange().send_made([self = shared_from_this(), this] { return make(); });
  }
  void deliver_failure(const Refusal& failure) override { exchange().send(to_response(failure)); }

  // Made in some microseconds: not worth waiting for a worker, which may be at a large request.
  [[nodiscard]] bool is_short() const {
    constexpr size_t kMostBytes = 16 << 10, kBytesOfChoice = 128;
    size_t n_bytes = choices_.size() * kBytesOfChoice;
    for (const ChoiceText& choice : choices_) n_bytes += choice.text.size();
    return is_text_alone_ && n_bytes <= kMostBytes;
  }
  HttpResponse make() {
    HttpResponse response;
    response.body = format().whole(choices_, usage());
    return response;
  }

  std::vector<ChoiceText> choices_;
  const bool is_text_alone_;
};

class StreamedAnswer : public Answer {
 public:
  StreamedAnswer(std::unique_ptr<AnswerFormat> format, std::shared_ptr<Exchange> exchange,
                 engine::Engine& engine, const TextCall& call)
      : Answer(std::move(format), std::move(exchange), engine, call),
        include_usage_(call.include_usage),
        begun_(call.prompts.size() * call.request.n, false) {}

 private:
  void add_delta(uint32_t choice, engine::Delta delta) override {
    begin(choice);
    format().append_delta(choice, delta, pending_);
  }
  void add_finish(uint32_t choice, engine::FinishReason reason) override {
    begin(choice);
    format().append_finish(choice, reason, pending_);
  }
  void deliver(bool complete) override {
    if (!complete) return write();
    if (include_usage_) format().append_usage(usage(), pending_);
    end();
  }
  void deliver_failure(const Refusal& failure) override {
    if (!started_) return exchange().send(to_response(failure));
    pending_ += kEventBegin;
    pending_ += error_body(failure.status, failure.message, failure.param, failure.code);
    pending_ += kEventEnd;
    end();
  }

  void begin(uint32_t choice) {
    if (begun_[choice]) return;
    begun_[choice] = true;
    format().append_begin(choice, pending_);
  }
  void start() {
    if (!started_) exchange().start_stream("text/event-stream; charset=utf-8");
    started_ = true;
  }
  void write() {
    if (pending_.empty()) return;
    start();
    exchange().write(pending_);
    pending_.clear();
  }
  void end() {
    pending_ += kDoneEvent;
    start();
    exchange().end_stream(std::move(pending_));
  }

  const bool include_usage_;
  std::vector<bool> begun_;
  std::string pending_;
  bool started_ = false;
};

}  // namespace

std::shared_ptr<Answer> make_answer(std::unique_ptr<AnswerFormat> format,
                                    std::shared_ptr<Exchange> exchange, engine::Engine& engine,
                                    const TextCall& call) {
  if (call.stream) {
    return std::make_shared<StreamedAnswer>(std::move(format), std::move(exchange), engine, call);
  }
  return std::make_shared<WholeAnswer>(std::move(format), std::move(exchange), engine, call);
}

}  // namespace bp::server
