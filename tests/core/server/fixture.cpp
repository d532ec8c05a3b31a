#include "fixture.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <thread>
#include <utility>

#include "core/engine/stats.hpp"
#include "tests/core/text/small_vocabulary.hpp"
#include "tests/support/built_plugin.hpp"

namespace bp::server::testing {

using namespace std::chrono_literals;

void ClientView::send(HttpResponse r) {
  std::unique_lock lock(mutex_);
  EXPECT_FALSE(ended_) << "answered twice";
  EXPECT_FALSE(streamed);
  response = std::move(r);
  end(std::move(lock));
}

void ClientView::send_made(std::function<HttpResponse()> make) {
  workers.post([self = shared_from_this(), make = std::move(make)] { self->send(make()); });
}

void ClientView::start_stream(std::string content_type) {
  const std::scoped_lock lock(mutex_);
  EXPECT_FALSE(streamed);
  streamed = true;
  response.content_type = std::move(content_type);
}

void ClientView::write(std::string piece) {
  const std::scoped_lock lock(mutex_);
  EXPECT_TRUE(streamed);
  EXPECT_FALSE(ended_);
  pieces.push_back(std::move(piece));
  changed_.notify_all();
}

void ClientView::end_stream(std::string last) {
  std::unique_lock lock(mutex_);
  EXPECT_TRUE(streamed);
  if (!last.empty()) pieces.push_back(std::move(last));
  end(std::move(lock));
}

void ClientView::on_cancel(std::function<void()> cancel) {
  const std::scoped_lock lock(mutex_);
  cancel_ = std::move(cancel);
  changed_.notify_all();
}

void ClientView::end(std::unique_lock<std::mutex> lock) {
  EXPECT_TRUE(lock.owns_lock());
  EXPECT_FALSE(ended_);
  ended_ = true;
  changed_.notify_all();
}

void ClientView::wait_for_end() {
  std::unique_lock lock(mutex_);
  ASSERT_TRUE(changed_.wait_for(lock, 30s, [this] { return ended_; }));
}

void ClientView::wait_for_pieces(size_t n) {
  std::unique_lock lock(mutex_);
  ASSERT_TRUE(changed_.wait_for(lock, 30s, [&] { return pieces.size() >= n; }));
}

bool ClientView::has_ended() {
  const std::scoped_lock lock(mutex_);
  return ended_;
}

void ClientView::cancel() {
  std::function<void()> cancel;
  {
    std::unique_lock lock(mutex_);
    ASSERT_TRUE(changed_.wait_for(lock, 30s, [this] { return cancel_ != nullptr; }));
    cancel = std::exchange(cancel_, nullptr);
  }
  cancel();
}

std::vector<Json> ClientView::events() {
  std::vector<Json> events;
  std::string text;
  for (const std::string& piece : pieces) text += piece;
  constexpr std::string_view kBegin = "data: ";
  while (!text.empty()) {
    const size_t end = text.find("\n\n");
    EXPECT_TRUE(text.starts_with(kBegin) && end != std::string::npos) << text;
    const std::string data = text.substr(kBegin.size(), end - kBegin.size());
    EXPECT_EQ(data.find('\n'), std::string::npos);
    text.erase(0, end + 2);
    if (text.empty()) {
      EXPECT_EQ(data, "[DONE]");
      return events;
    }
    events.push_back(Json::parse(data));
  }
  ADD_FAILURE() << "the stream is empty";
  return events;
}

namespace {

constexpr char kTemplate[] =
    "{% for m in messages %}<|start|>{{ m.role }}\n{{ m.content }}"
    "{% if m.tool_calls is defined %}{{ m.tool_calls | tojson }}{% endif %}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|start|>assistant\n"
    "{% if thinking is defined %}({{ thinking }}){% endif %}{% endif %}";

using bp::testing::bare_host;
using bp::testing::load_plugin;
using bp::testing::Loaded;

// Position after the last assistant's header, or 0.
size_t answer_begin(std::span<const int32_t> history) {
  static constexpr std::string_view kRole = "assistant\n";
  for (size_t i = history.size(); i-- > 0;) {
    if (history[i] != kStart) continue;
    const auto role = history.subspan(i + 1, std::min(kRole.size(), history.size() - i - 1));
    return std::ranges::equal(role, kRole) ? i + 1 + kRole.size() : 0;
  }
  return 0;
}

}  // namespace

ServerTest::ServerTest() : template_source(kTemplate) {
  model.n_vocab = 259;
  model.script = [this](std::span<const int32_t> history) { return next_token(history); };
}

std::optional<int32_t> ServerTest::next_token(std::span<const int32_t> history) const {
  const size_t begin = answer_begin(history);
  if (begin == 0) return static_cast<int32_t>('a' + history.size() % 26);
  const size_t i = history.size() - begin;
  return i < reply_ids_.size() ? reply_ids_[i] : kEnd;
}

ServerTest::~ServerTest() {
  app.reset();
  tiny.reset();
  EXPECT_EQ(model.violation(), "");
}

void ServerTest::start() {
  app = std::make_unique<App>(config, std::vector<std::string>{"tiny"});
  tiny = make_model("tiny");
  app->add_model(tiny);
}

std::shared_ptr<runtime::ServedModel> ServerTest::make_model(const std::string& id) {
  auto served = std::make_shared<runtime::ServedModel>();
  served->id = id;
  served->created = 1'700'000'000;
  auto vocabulary = text::testing::byte_vocabulary({});
  for (const std::string& token : control_tokens) {
    text::testing::add_token(vocabulary, token, text::TokenType::kControl);
  }
  model.n_vocab = static_cast<uint32_t>(vocabulary.n_tokens());
  served->tokenizer = text::testing::make_tokenizer(std::move(vocabulary));
  reply_ids_ = served->tokenizer->encode(reply, {.add_special = false});
  auto chat_template = text::ChatTemplate::create(template_source, {});
  EXPECT_TRUE(chat_template.ok()) << chat_template.status().message();
  served->chat_template = std::make_shared<text::ChatTemplate>(std::move(chat_template).value());

  const auto address = reinterpret_cast<int64_t>(&model);
  auto backend = std::make_shared<const plugin::BackendHandle>(
      plugin::BackendHandle::create(engine::testing::fake_backend_factory(), bare_host(),
                                    {{"model", address}})
          .value());
  static const bp_program program = make_growable<bp_program>();
  auto compile = make_growable<bp_compile_options>();
  compile.max_context = limits.context;
  compile.max_step_tokens = limits.max_step_tokens;
  compile.max_sequences = limits.max_sequences;
  compile.max_output_rows = limits.max_output_rows;
  auto executable = backend->compile(program, compile).value();
  EXPECT_TRUE(executable.kv_allocate(std::array{n_blocks}).ok());

  const Loaded samplers = load_plugin("samplers");
  engine::SamplerSet set;
  set.plugins.push_back(
      {"samplers",
       plugin::SamplerHandle::create(samplers.library->factory<bp_sampler_factory>(BP_SAMPLER_ID),
                                     bare_host(), {})
           .value(),
       samplers.manifest.stages});
  set.chain = {"penalties", "top_k", "typical_p", "top_p", "min_p", "temperature"};
  set.defaults = {{"temperature", 0.0}};
  for (const auto& stage : samplers.manifest.stages) {
    served->request_fields.insert(served->request_fields.end(), stage.fields.begin(),
                                  stage.fields.end());
  }
  const Loaded fcfs = load_plugin("fcfs");
  engine::EngineParts parts{
      .keep_alive = backend,
      .n_vocab = model.n_vocab,
      .logits_output = 0,
      .tokenizer = served->tokenizer.get(),
      .end_of_generation = {kEnd},
      .executable = std::move(executable),
      .n_kv_groups = 1,
      .block_size = model.block_size,
      .n_blocks = n_blocks,
      .scheduler = plugin::SchedulerHandle::create(
                       fcfs.library->factory<bp_scheduler_factory>(BP_SCHEDULER_ID), bare_host(),
                       {{"watermark", 0.01}})
                       .value(),
      .samplers = std::move(set),
      .limits = limits};
  auto created = engine::Engine::create(std::move(parts));
  EXPECT_TRUE(created.ok()) << created.status().message();
  served->engine = std::move(created).value();
  served->context = served->engine->context();
  return served;
}

Client ServerTest::request(HttpRequest request) {
  auto client = std::make_shared<ClientView>(workers);
  HttpRequest head = request;
  head.body.clear();
  Route route = app->router()(head);
  if (route.verdict == Route::Verdict::kRefuse) {
    client->send(std::move(route.refusal));
  } else {
    route.handler(std::move(request), client);
  }
  return client;
}

Client ServerTest::post(const std::string& path, const std::string& body) {
  return request({.method = "POST",
                  .path = path,
                  .content_type = "application/json",
                  .content_encoding = {},
                  .authorization = {},
                  .body = body});
}

Client ServerTest::get(const std::string& path) {
  Client client = request({.method = "GET",
                           .path = path,
                           .content_type = {},
                           .content_encoding = {},
                           .authorization = {},
                           .body = {}});
  client->wait_for_end();
  return client;
}

Client ServerTest::ask(const std::string& path, const Json& body) {
  Client client = post(path, body.dump());
  client->wait_for_end();
  return client;
}

Client ServerTest::chat(const std::string& content, Json more) {
  Json body = {{"model", "tiny"},
               {"messages", Json::array({{{"role", "user"}, {"content", content}}})}};
  body.update(more);
  return ask("/v1/chat/completions", body);
}

Client ServerTest::complete(const Json& prompt, Json more) {
  Json body = {{"model", "tiny"}, {"prompt", prompt}};
  body.update(more);
  return ask("/v1/completions", body);
}

void ServerTest::wait_until_idle() const {
  for (int i = 0; i < 30'000 && !app->idle(); ++i) std::this_thread::sleep_for(1ms);
  ASSERT_TRUE(app->idle());
}

}  // namespace bp::server::testing
