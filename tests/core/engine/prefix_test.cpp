// Content computed once is found again, by those who may.

#include <algorithm>

#include "backplane/scheduler.hpp"
#include "fixture.hpp"

namespace bp::engine::testing {
namespace {

constexpr uint32_t kBlockSize = 4;

// Tokens that the last sequence had and that were found of it, at each step at which it waited.
struct Shown {
  uint32_t n_tokens, n_cached;
  friend bool operator==(const Shown&, const Shown&) = default;
};
std::vector<Shown> g_shown;  // engine's thread; read once it is idle

// Runs the first sequence alone, a block at a time. Preempts it once when it has that many tokens.
template <uint32_t kPreemptAt>
class OneAtATime final : public Scheduler {
 public:
  static Result<std::unique_ptr<Scheduler>> create(const Host&, const Params&) {
    return std::unique_ptr<Scheduler>(std::make_unique<OneAtATime>());
  }
  Status schedule(const bp_snapshot& s, bp_decision& d) override {
    const uint32_t last = s.n_seqs - 1;
    if (s.state[last] == BP_SEQ_WAITING) {
      g_shown.push_back({s.n_tokens[last], s.n_cached[last]});
    }
    const bool runs = s.state[0] == BP_SEQ_RUNNING;
    if (runs && !preempted_ && s.n_tokens[0] == kPreemptAt) {
      d.preempt[0] = BP_PREEMPT_RECOMPUTE;
      preempted_ = true;
      return {};
    }
    const uint32_t n_done = runs ? s.n_computed[0] : s.n_cached[0];
    d.n_tokens[0] = std::min(kBlockSize, s.n_tokens[0] - n_done);
    return {};
  }

 private:
  bool preempted_ = false;
};

template <uint32_t kPreemptAt>
constexpr bp_scheduler_factory kOneAtATime = scheduler_factory<OneAtATime<kPreemptAt>>();

bool g_holder_went = false;  // engine's thread; read once it is idle

// Preempts the first sequence and starts both that wait, as soon as the second finds its blocks;
// leaves all that follows to the engine.
class HolderGoes final : public Scheduler {
 public:
  static Result<std::unique_ptr<Scheduler>> create(const Host&, const Params&) {
    return std::unique_ptr<Scheduler>(std::make_unique<HolderGoes>());
  }
  Status schedule(const bp_snapshot& s, bp_decision& d) override {
    if (went_) {
      g_holder_went = g_holder_went || s.state[0] == BP_SEQ_WAITING;
      return invalid_argument("no more decisions");
    }
    went_ = s.n_seqs == 3 && s.n_cached[1] == 40;
    if (!went_) {
      d.n_tokens[0] = s.n_tokens[0] - s.n_computed[0];
      return {};
    }
    EXPECT_EQ(s.n_held[1], 10u);
    d.preempt[0] = BP_PREEMPT_RECOMPUTE;
    for (uint32_t i = 1; i < 3; ++i) d.n_tokens[i] = s.n_tokens[i] - s.n_cached[i];
    return {};
  }

 private:
  bool went_ = false;
};

constexpr bp_scheduler_factory kHolderGoes = scheduler_factory<HolderGoes>();

EngineOptions small_pool(uint32_t n_blocks, uint32_t context) {
  EngineOptions options;
  options.n_blocks = n_blocks;
  options.limits.context = context;
  return options;
}

class PrefixTest : public EngineTest {
 protected:
  Answer ask(std::vector<int32_t> prompt, const std::string& salt = "",
             const std::string& tenant = "") {
    Request request = make_request(std::move(prompt), 8);
    request.cache_salt = salt;
    request.tenant = tenant;
    return run(request);
  }
};

TEST_F(PrefixTest, TheSamePromptIsFoundAndAnsweredAlike) {
  start();
  const auto prompt = make_prompt(1, 32);
  const Answer first = ask(prompt);
  EXPECT_EQ(first.finish.usage.n_cached, 0u);
  const uint64_t computed = model.n_computed_tokens;
  const Answer second = ask(prompt);
  EXPECT_EQ(second.finish.usage.n_cached, 28u);  // the last block holds the token to compute
  EXPECT_EQ(second.tokens, first.tokens);
  EXPECT_EQ(model.n_computed_tokens - computed, 4u + 7u);
  EXPECT_EQ(engine->stats().prefix_cache_hits.get(), 28u);
  EXPECT_EQ(engine->stats().prefix_cache_queries.get(), 64u);
}

TEST_F(PrefixTest, AnswersAreFoundAsPartOfTheNextPrompt) {
  start();
  auto prompt = make_prompt(2, 20);
  const Answer first = ask(prompt);
  prompt.insert(prompt.end(), first.tokens.begin(), first.tokens.end());
  prompt.push_back(50);
  const Answer second = ask(prompt);
  EXPECT_EQ(second.finish.usage.n_cached, 24u);  // 27 tokens were computed
  EXPECT_EQ(second.tokens, greedy(prompt, 8));
}

TEST_F(PrefixTest, ADifferentBeginningIsAnotherPrefix) {
  start();
  auto prompt = make_prompt(3, 32);
  ask(prompt);
  prompt[0] ^= 1;
  const Answer other = ask(prompt);
  EXPECT_EQ(other.finish.usage.n_cached, 0u);
  EXPECT_EQ(other.tokens, greedy(prompt, 8));
}

TEST_F(PrefixTest, SaltsAndTenantsKeepPrefixesApart) {
  start();
  const auto prompt = make_prompt(4, 32);
  ask(prompt, "a", "x");
  EXPECT_EQ(ask(prompt, "b", "x").finish.usage.n_cached, 0u);
  EXPECT_EQ(ask(prompt, "a", "y").finish.usage.n_cached, 0u);
  EXPECT_EQ(ask(prompt, "a", "x").finish.usage.n_cached, 28u);
}

TEST_F(PrefixTest, OffMeansOff) {
  EngineOptions options;
  options.limits.prefix_cache = false;
  start(options);
  ask(make_prompt(1, 32));
  EXPECT_EQ(ask(make_prompt(1, 32)).finish.usage.n_cached, 0u);
  EXPECT_EQ(engine->stats().kv_blocks_cached.get(), 0u);
}

TEST_F(PrefixTest, AWaitingRequestIsShownWithWhatOthersHaveComputedByNow) {
  EngineOptions options;
  options.scheduler = &kOneAtATime<0>;
  g_shown.clear();
  start(options);
  auto prompt = make_prompt(6, 20);
  std::vector<Request> requests{make_request(prompt, 1)};
  prompt.insert(prompt.end(), {60, 61, 62});
  requests.push_back(make_request(prompt, 8));
  const auto sinks = submit_together(std::move(requests));
  sinks[0]->wait();
  EXPECT_EQ(sinks[1]->wait()[0].tokens, greedy(prompt, 8));
  wait_until_idle();
  // The first step may have begun before the second request came.
  ASSERT_GE(g_shown.size(), 5u);
  const std::vector<Shown> shown(g_shown.end() - 5, g_shown.end());
  EXPECT_EQ(shown, (std::vector<Shown>{{23, 4}, {23, 8}, {23, 12}, {23, 16}, {23, 20}}));
}

TEST_F(PrefixTest, APreemptedRequestIsShownWithItsOwnBlocks) {
  EngineOptions options;
  options.scheduler = &kOneAtATime<14>;
  start(options);
  const auto prompt = make_prompt(7, 5);
  run(make_request(prompt, 1));
  g_shown.clear();
  EXPECT_EQ(run(make_request(prompt, 16)).tokens, greedy(prompt, 16));
  wait_until_idle();
  EXPECT_EQ(g_shown, (std::vector<Shown>{{5, 4}, {14, 12}}));
}

TEST_F(PrefixTest, BlocksThatOthersHoldNeedNoRoom) {
  start(small_pool(15, 56));
  const auto prompt = make_prompt(8, 40);
  auto longer = prompt;
  longer.push_back(50);
  const auto sinks = submit_together({make_request(prompt, 8), make_request(longer, 2)});
  EXPECT_EQ(sinks[0]->wait()[0].tokens, greedy(prompt, 8));
  EXPECT_EQ(sinks[1]->wait()[0].tokens, greedy(longer, 2));
  EXPECT_EQ(model.max_sequences, 2u);  // the second did not wait for the end of the first
  EXPECT_EQ(engine->stats().preemptions.get(), 0u);
  EXPECT_EQ(engine->stats().invalid_decisions.get(), 0u);
}

// Of 14 blocks there seem to be enough for all, since both the first gives up ten and the second
// needs no room for them.
TEST_F(PrefixTest, BlocksWhoseHolderGoesInTheSameStepAreMissedWithoutHarm) {
  EngineOptions options = small_pool(15, 56);
  options.scheduler = &kHolderGoes;
  g_holder_went = false;
  start(options);
  const auto prompt = make_prompt(8, 40);
  auto longer = prompt;
  longer.insert(longer.end(), {50, 51, 52, 53, 54});
  const std::vector<std::vector<int32_t>> prompts{prompt, longer, make_prompt(9, 48)};
  std::vector<Request> requests;
  for (const auto& p : prompts) requests.push_back(make_request(p, 8));
  const auto sinks = submit_together(std::move(requests));
  for (size_t i = 0; i < prompts.size(); ++i) {
    EXPECT_EQ(sinks[i]->wait()[0].tokens, greedy(prompts[i], 8)) << i;
  }
  wait_until_idle();
  EXPECT_TRUE(g_holder_went);
  EXPECT_EQ(engine->stats().kv_blocks_used.get(), 0u);
}

TEST_F(PrefixTest, ManySharersInATinyPoolGetTheirOwnAnswers) {
  start(small_pool(41, 120));
  const auto shared = make_prompt(5, 24);
  std::vector<std::vector<int32_t>> prompts;
  std::vector<std::shared_ptr<CollectingSink>> sinks;
  for (uint32_t i = 0; i < 40; ++i) {
    auto prompt = shared;
    const auto rest = make_prompt(100 + i % 7, 1 + i % 30);
    prompt.insert(prompt.end(), rest.begin(), rest.end());
    prompts.push_back(prompt);
    sinks.push_back(submit(make_request(prompt, 30)));
  }
  for (uint32_t i = 0; i < 40; ++i) {
    EXPECT_EQ(sinks[i]->wait()[0].tokens, greedy(prompts[i], 30)) << i;
  }
  EXPECT_GT(engine->stats().prefix_cache_hits.get(), 100u);
  wait_until_idle();
  EXPECT_EQ(engine->stats().kv_blocks_used.get(), 0u);
}

}  // namespace
}  // namespace bp::engine::testing
