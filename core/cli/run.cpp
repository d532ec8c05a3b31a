// backplane run: one prompt, or a chat on a terminal. Only generated text goes to standard output.

#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <iostream>
#include <mutex>
#include <random>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/cli/commands.hpp"
#include "core/cli/progress.hpp"
#include "core/config/config.hpp"
#include "core/runtime/launch.hpp"
#include "core/server/prompt.hpp"
#include "core/text/chat_output/output_parser.hpp"
#include "core/text/jinja/text_ops.hpp"

namespace bp::cli {

namespace {

std::atomic<bool> g_interrupted{false};  // set by the signal handler, which can reach nothing else

void print(std::string_view text, std::FILE* stream) {
  std::fwrite(text.data(), 1, text.size(), stream);
  std::fflush(stream);
}

// Prints the answer as it comes, keeps it, and lets the command wait for the end. What a model
// thinks before it answers goes to standard error, in dim letters on a terminal.
class Printer : public engine::Sink {
 public:
  explicit Printer(text::chat::OutputSettings settings)
      : settings_(std::move(settings)), parser_(text::chat::OutputParser::create(settings_)) {}

  void on_prompt_logprobs(std::vector<engine::PositionLogprobs>) override {}
  void on_delta(uint32_t, engine::Delta delta) override { take(parser_->push(delta.text)); }
  void on_finish(uint32_t, engine::Finish finish) override {
    take(parser_->finish());
    end_thoughts();
    const std::lock_guard lock(mutex_);
    finish_ = std::move(finish);
    done_ = true;
    changed_.notify_all();
  }

  // Polls for an interruption, which a condition variable cannot be told of.
  engine::Finish wait(engine::Engine& engine, engine::RequestId id) {
    std::unique_lock lock(mutex_);
    bool cancelled = false;
    while (!changed_.wait_for(lock, std::chrono::milliseconds(50), [this] { return done_; })) {
      if (g_interrupted.exchange(false) && !cancelled) {
        cancelled = true;
        engine.cancel(id);
      }
    }
    return finish_;
  }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  void take(const text::chat::OutputEvents& events) {
    for (const text::chat::OutputEvent& event : events) {
      if (event.kind == text::chat::OutputEvent::Kind::kReasoning) {
        if (!thinks_ && is_terminal_) print("\x1b[2m", stderr);
        thinks_ = true;
        print(event.text, stderr);
      } else {
        end_thoughts();
        print(event.text, stdout);
        const std::lock_guard lock(mutex_);
        text_ += event.text;
      }
    }
  }
  void end_thoughts() {
    if (thinks_) print(is_terminal_ ? "\x1b[0m\n" : "\n", stderr);
    thinks_ = false;
  }

  const text::chat::OutputSettings settings_;
  const std::unique_ptr<text::chat::OutputParser> parser_;
  const bool is_terminal_ = ::isatty(STDERR_FILENO) == 1;
  bool thinks_ = false;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string text_;
  engine::Finish finish_{};
  bool done_ = false;
};

class Session {
 public:
  Session(const RunOptions& options, runtime::ServedModel& model)
      : options_(options), model_(model) {}

  Status answer(const std::string& text) {
    text::chat::OutputSettings output;
    output.dialect = text::chat::find_dialect("none");
    BP_ASSIGN(const std::vector<int32_t> prompt, prompt_of(text, output));
    engine::Request request;
    request.prompt = prompt;
    request.shown_tokens = text::chat::marker_tokens(*output.dialect, false, *model_.tokenizer);
    const auto printer = std::make_shared<Printer>(std::move(output));
    request.max_tokens = options_.max_tokens;
    request.seed = options_.seed ? *options_.seed : std::random_device{}();
    if (options_.temperature) request.sampling["temperature"] = *options_.temperature;
    request.sink = printer;
    BP_ASSIGN(const engine::RequestId id, model_.engine->submit(std::move(request)));
    const engine::Finish finish = printer->wait(*model_.engine, id);
    if (finish.reason == engine::FinishReason::kError) return internal_error(finish.error);
    messages_.push_back({{"role", "assistant"}, {"content", printer->text()}});
    return {};
  }

 private:
  // output: how the answer is to be read.
  Result<std::vector<int32_t>> prompt_of(const std::string& text,
                                         text::chat::OutputSettings& output) {
    if (options_.raw || model_.chat_template == nullptr) return model_.tokenizer->encode(text);
    if (!text::jinja::is_valid_utf8(text)) {
      const char* source = options_.prompt ? "--prompt" : "the message";
      return invalid_argument(fmt::format("{}: is not UTF-8, which a chat must be", source));
    }
    messages_.push_back({{"role", "user"}, {"content", text}});
    nlohmann::ordered_json variables = {{"messages", messages_}, {"add_generation_prompt", true}};
    BP_ASSIGN(const server::RenderedChat chat,
              server::render_chat(*model_.chat_template, *model_.tokenizer, std::move(variables)));
    output.dialect = model_.chat_output != nullptr
                         ? model_.chat_output
                         : &text::chat::dialect_of_template(model_.chat_template->source());
    output.lead = text::chat::prompt_lead(*output.dialect, chat.text);
    return server::encode_prompt(*model_.tokenizer, chat.text, chat.plain_at);
  }

  const RunOptions& options_;
  runtime::ServedModel& model_;
  nlohmann::ordered_json messages_ = nlohmann::ordered_json::array();
};

Status chat(Session& session) {
  const bool on_terminal = ::isatty(STDIN_FILENO) == 1;
  if (on_terminal) fmt::print(stderr, "Type a message; Ctrl-C stops an answer, Ctrl-D ends.\n");
  while (true) {
    if (on_terminal) fmt::print(stderr, "> ");
    std::string line;
    if (!std::getline(std::cin, line)) return {};
    if (line.empty()) continue;
    g_interrupted = false;  // there was nothing to interrupt
    BP_TRY(session.answer(line));
    std::fputs("\n", stdout);
    std::fflush(stdout);
  }
}

Result<config::Model> configure(const RunOptions& options, const plugin::Catalog& catalog) {
  BP_ASSIGN(config::Model config, config::default_model(options.model, options.backend, catalog));
  BP_TRY(config::set_backend_keys(options.backend_keys, catalog, config.backend));
  BP_TRY(config::add_overrides(options.overrides, catalog, config.backend));
  config.context = options.context;
  config.context_place = "--context";
  config.backend.n_threads = options.n_threads;
  config.scheduler.max_sequences = 1;
  return config;
}

}  // namespace

Status run(const RunOptions& options) {
  BP_ASSIGN(const auto runtime, runtime::default_runtime(options.n_threads));
  BP_ASSIGN(const config::Model config, configure(options, runtime->catalog()));
  std::unique_ptr<runtime::ServedModel> model;
  {
    const ProgressBar progress("loading");
    BP_ASSIGN(model, runtime::launch(*runtime, config, /*max_queue=*/1, progress.c()));
  }
  std::signal(SIGINT, [](int) { g_interrupted = true; });
  Session session(options, *model);
  return options.prompt ? session.answer(*options.prompt) : chat(session);
}

}  // namespace bp::cli
