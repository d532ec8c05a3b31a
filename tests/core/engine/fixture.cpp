#include "fixture.hpp"
#include "tests/support/built_plugin.hpp"

#include <chrono>
#include <cstdlib>
#include <future>
#include <random>
#include <thread>

namespace bp::engine::testing {

using namespace std::chrono_literals;

std::vector<int32_t> byte_tokens(const std::string& text) {
  std::vector<int32_t> tokens;
  for (const char c : text) tokens.push_back(byte_token(c));
  return tokens;
}

void CollectingSink::on_prompt_logprobs(std::vector<PositionLogprobs> logprobs) {
  const std::scoped_lock lock(mutex_);
  prompt_logprobs_ = std::move(logprobs);
  ++n_prompt_calls_;
}

void CollectingSink::on_delta(uint32_t choice, Delta delta) {
  {
    const std::scoped_lock lock(mutex_);
    Answer& answer = answers_[choice];
    EXPECT_FALSE(answer.finished) << "a delta after the finish";
    answer.text += delta.text;
    if (!delta.text.empty()) answer.pieces.push_back(delta.text);
    answer.tokens.insert(answer.tokens.end(), delta.tokens.begin(), delta.tokens.end());
    for (auto& entry : delta.logprobs) answer.logprobs.push_back(std::move(entry));
    changed_.notify_all();
  }
  if (on_token) on_token();
}

void CollectingSink::on_finish(uint32_t choice, Finish finish) {
  const std::scoped_lock lock(mutex_);
  Answer& answer = answers_[choice];
  EXPECT_FALSE(answer.finished) << "two finishes";
  answer.finished = true;
  answer.finish = std::move(finish);
  ++n_finished_;
  changed_.notify_all();
}

std::vector<Answer> CollectingSink::wait(uint32_t n) {
  std::unique_lock lock(mutex_);
  EXPECT_TRUE(changed_.wait_for(lock, 60s, [&] { return n_finished_ == n; }));
  std::vector<Answer> answers;
  for (const auto& [choice, answer] : answers_) answers.push_back(answer);
  answers.resize(n);
  return answers;
}

void CollectingSink::wait_for_tokens(size_t n) {
  std::unique_lock lock(mutex_);
  EXPECT_TRUE(changed_.wait_for(lock, 60s, [&] { return answers_[0].tokens.size() >= n; }));
}

std::vector<PositionLogprobs> CollectingSink::prompt_logprobs() {
  const std::scoped_lock lock(mutex_);
  return prompt_logprobs_;
}

uint32_t CollectingSink::n_prompt_logprobs_calls() {
  const std::scoped_lock lock(mutex_);
  return n_prompt_calls_;
}

namespace {

using bp::testing::bare_host;
using bp::testing::load_plugin;
using bp::testing::Loaded;

plugin::SchedulerHandle make_scheduler(const bp_scheduler_factory* factory) {
  if (factory == nullptr) {
    factory = load_plugin("fcfs").library->factory<bp_scheduler_factory>(BP_SCHEDULER_ID);
  }
  return plugin::SchedulerHandle::create(factory, bare_host(), {{"watermark", 0.01}}).value();
}

SamplerSet make_samplers(const plugin::ParamMap& defaults) {
  const Loaded loaded = load_plugin("samplers");
  const auto* factory = loaded.library->factory<bp_sampler_factory>(BP_SAMPLER_ID);
  SamplerSet set;
  set.plugins.push_back({"samplers",
                         plugin::SamplerHandle::create(factory, bare_host(), {}).value(),
                         loaded.manifest.stages});
  set.chain = {"penalties", "top_k", "typical_p", "top_p", "min_p", "temperature"};
  set.defaults = defaults;
  return set;
}

std::unique_ptr<text::Tokenizer> make_tokenizer(uint32_t n_vocab) {
  text::Vocabulary v;
  v.model = "llama";
  v.tokens = {"<unk>", "<s>", "</s>"};
  v.types = {text::TokenType::kUnknown, text::TokenType::kControl, text::TokenType::kControl};
  const auto add = [&](const std::string& text, text::TokenType type) {
    v.tokens.push_back(text);
    v.types.push_back(type);
  };
  for (int i = 0; i < 256; ++i) {
    char text[8];
    std::snprintf(text, sizeof text, "<0x%02X>", i);
    add(text, text::TokenType::kByte);
  }
  while (v.tokens.size() < n_vocab) {
    add("piece" + std::to_string(v.tokens.size()), text::TokenType::kNormal);
  }
  v.scores.assign(v.tokens.size(), 0);
  v.unk = 0;
  v.bos = 1;
  v.eos = kEos;
  text::find_end_of_generation(v);
  auto tokenizer = text::Tokenizer::create(std::move(v));
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  return std::move(tokenizer).value();
}

struct Compiled {
  plugin::ExecutableHandle executable;
  std::optional<plugin::KvTransfer> transfer;
};

Compiled make_executable(const plugin::BackendHandle& backend, const EngineOptions& options) {
  static const bp_program program = make_growable<bp_program>();
  auto compile = make_growable<bp_compile_options>();
  compile.max_context = options.limits.context;
  compile.max_step_tokens = options.limits.max_step_tokens;
  compile.max_sequences = options.limits.max_sequences;
  compile.max_output_rows = options.limits.max_output_rows;
  auto executable = backend.compile(program, compile);
  EXPECT_TRUE(executable.ok());
  auto transfer = plugin::KvTransfer::prepare(backend, *executable);
  EXPECT_TRUE(transfer.ok()) << transfer.status().message();
  std::vector<uint32_t> counts = {options.n_blocks};
  if (options.n_state_entries > 0) counts.push_back(options.n_state_entries);
  EXPECT_TRUE(executable->kv_allocate(counts).ok());
  return {std::move(executable).value(), std::move(transfer).value()};
}

}  // namespace

EngineTest::~EngineTest() {
  engine.reset();
  EXPECT_EQ(model.violation(), "");
}

void EngineTest::start(const EngineOptions& options) {
  engine.reset();
  const auto address = reinterpret_cast<int64_t>(&model);
  auto backend = std::make_shared<const plugin::BackendHandle>(
      plugin::BackendHandle::create(fake_backend_factory(), bare_host(), {{"model", address}})
          .value());
  tokenizer = make_tokenizer(model.n_vocab);
  Compiled compiled = make_executable(*backend, options);
  EngineParts parts{.keep_alive = backend,
                    .n_vocab = model.n_vocab,
                    .max_candidates = backend->max_candidates(),
                    .logits_output = 0,
                    .runs_ahead = model.runs_ahead,
                    .tokenizer = tokenizer.get(),
                    .end_of_generation = options.end_of_generation,
                    .executable = std::move(compiled.executable),
                    .transfer = compiled.transfer,
                    .n_kv_groups = 1,
                    .block_size = model.block_size,
                    .n_blocks = options.n_blocks,
                    .n_state_entries = options.n_state_entries,
                    .scheduler = make_scheduler(options.scheduler),
                    .samplers = make_samplers(options.defaults),
                    .team = options.team,
                    .limits = options.limits};
  auto created = Engine::create(std::move(parts));
  ASSERT_TRUE(created.ok()) << created.status().message();
  engine = std::move(created).value();
}

Result<RequestId> EngineTest::try_submit(Request request,
                                         const std::shared_ptr<CollectingSink>& sink) {
  request.sink = sink;
  return engine->submit(std::move(request));
}

std::shared_ptr<CollectingSink> EngineTest::submit(Request request, RequestId* id) {
  auto sink = std::make_shared<CollectingSink>();
  const auto submitted = try_submit(std::move(request), sink);
  EXPECT_TRUE(submitted.ok()) << submitted.status().message();
  if (id != nullptr && submitted.ok()) *id = submitted.value();
  return sink;
}

std::vector<std::shared_ptr<CollectingSink>> EngineTest::submit_together(
    std::vector<Request> requests) {
  std::promise<void> submitted;
  model.before_step = [all_there = submitted.get_future().share()] { all_there.wait(); };
  std::vector<std::shared_ptr<CollectingSink>> sinks;
  for (Request& request : requests) sinks.push_back(submit(std::move(request)));
  submitted.set_value();
  return sinks;
}

Answer EngineTest::run(Request request) {
  const uint32_t n = request.n;
  return submit(std::move(request))->wait(n)[0];
}

void EngineTest::wait_until_idle() {
  for (int i = 0; i < 60000 && !engine->idle(); ++i) std::this_thread::sleep_for(1ms);
  ASSERT_TRUE(engine->idle());
}

std::vector<int32_t> EngineTest::greedy(std::vector<int32_t> history, uint32_t n) const {
  std::vector<int32_t> answer;
  while (answer.size() < n && (answer.empty() || answer.back() != kEos)) {
    const std::vector<float> row = model.logits(history);
    const auto best = std::max_element(row.begin(), row.end()) - row.begin();
    answer.push_back(static_cast<int32_t>(best));
    history.push_back(answer.back());
  }
  return answer;
}

std::vector<int32_t> make_prompt(uint32_t seed, uint32_t n) {
  std::mt19937 random(seed);
  std::vector<int32_t> prompt(n);
  for (int32_t& token : prompt) token = static_cast<int32_t>(3 + random() % 290);
  return prompt;
}

Request make_request(std::vector<int32_t> prompt, uint32_t max_tokens) {
  Request request;
  request.prompt = std::move(prompt);
  request.max_tokens = max_tokens;
  return request;
}

}  // namespace bp::engine::testing
