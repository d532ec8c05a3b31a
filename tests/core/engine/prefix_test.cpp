// Content computed once is found again, by those who may.

#include "fixture.hpp"

namespace bp::engine::testing {
namespace {

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

TEST_F(PrefixTest, ManySharersInATinyPoolGetTheirOwnAnswers) {
  EngineOptions options;
  options.n_blocks = 41;
  options.limits.context = 120;
  start(options);
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
