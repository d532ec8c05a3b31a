#include <set>
#include <string>

#include "fixture.hpp"

namespace bp::server::testing {
namespace {

class CompletionTest : public ServerTest {
 protected:
  CompletionTest() { start(); }
};

TEST_F(CompletionTest, ContinuesTextAndIds) {
  const Json body = complete("xyz", {{"max_tokens", 4}})->json();
  EXPECT_EQ(body["object"], "text_completion");
  EXPECT_EQ(
      body["choices"],
      Json::array(
          {{{"index", 0}, {"text", "defg"}, {"logprobs", nullptr}, {"finish_reason", "length"}}}));
  EXPECT_EQ(body["usage"]["prompt_tokens"], 3);
  EXPECT_EQ(complete({'x', 'y', 'z'}, {{"max_tokens", 4}})->json()["choices"], body["choices"]);
  EXPECT_EQ(complete("xyz")->json()["usage"]["completion_tokens"], 16) << "the default";
}

TEST_F(CompletionTest, SeveralPromptsWithSeveralChoices) {
  const Json body =
      complete(Json::array({"a", "bb", Json::array({1, 2, 3})}), {{"n", 2}, {"max_tokens", 2}})
          ->json();
  ASSERT_EQ(body["choices"].size(), 6U);
  const std::string texts[] = {"bc", "bc", "cd", "cd", "de", "de"};
  for (int i = 0; i < 6; ++i) {
    EXPECT_EQ(body["choices"][i]["index"], i);
    EXPECT_EQ(body["choices"][i]["text"], texts[i]);
  }
  EXPECT_EQ(body["usage"]["prompt_tokens"], 6);
  EXPECT_EQ(body["usage"]["completion_tokens"], 12);
}

TEST_F(CompletionTest, PromptsWithoutASeedDrawByTheirOwn) {
  model.script = nullptr;
  const auto texts = [&](const Json& more) {
    Json fields = {{"max_tokens", 12}, {"temperature", 1.5}};
    fields.update(more);
    std::set<std::string> different;
    const Json answer = complete({"abc", "abc", "abc"}, fields)->json();
    EXPECT_TRUE(answer.contains("choices")) << answer;
    for (const Json& choice : answer["choices"]) {
      different.insert(choice["text"].get<std::string>());
    }
    return different.size();
  };
  EXPECT_EQ(texts(Json::object()), 3u);
  EXPECT_EQ(texts({{"seed", 3}}), 1u);
}

TEST_F(CompletionTest, SpecialTokensInAPromptAreTokens) {
  const Json body = complete("<|start|>a", {{"max_tokens", 1}})->json();
  EXPECT_EQ(body["usage"]["prompt_tokens"], 2);
}

TEST_F(CompletionTest, Echo) {
  EXPECT_EQ(complete("xyz", {{"max_tokens", 2}, {"echo", true}})->json()["choices"][0]["text"],
            "xyzde");
  EXPECT_EQ(
      complete({kStart, 'y'}, {{"max_tokens", 1}, {"echo", true}})->json()["choices"][0]["text"],
      "<|start|>yc");
}

// What a scoring harness sends.
TEST_F(CompletionTest, EchoWithLogprobsScoresThePrompt) {
  const Json more = {
      {"max_tokens", 1}, {"echo", true}, {"logprobs", 1}, {"seed", 1234}, {"temperature", 0}};
  const Json body =
      complete(Json::array({Json::array({'a', 0xC3, 0xBC}), Json::array({'b', 'c'})}), more)
          ->json();
  const Json& first = body["choices"][0]["logprobs"];
  EXPECT_EQ(first["tokens"], (Json{"a", "\uFFFD", "\uFFFD", "d"}));
  ASSERT_EQ(first["token_logprobs"].size(), 4U);
  EXPECT_TRUE(first["token_logprobs"][0].is_null());
  EXPECT_TRUE(first["top_logprobs"][0].is_null());
  for (int i = 1; i < 4; ++i) {
    const double logprob = first["token_logprobs"][i].get<double>();
    EXPECT_LE(logprob, 0);
    double best = -1e9;
    for (const auto& [token, value] : first["top_logprobs"][i].items()) {
      best = std::max(best, value.get<double>());
    }
    EXPECT_LE(logprob, best);
  }
  EXPECT_EQ(first["text_offset"], (Json{0, 1, 2, 2})) << "in characters of the text";
  EXPECT_EQ(body["choices"][1]["logprobs"]["tokens"], (Json{"b", "c", "c"}));
}

TEST_F(CompletionTest, PromptAlone) {
  const Json more = {{"max_tokens", 0}, {"echo", true}, {"logprobs", 0}};
  const Json choice = complete("abc", more)->json()["choices"][0];
  EXPECT_EQ(choice["text"], "abc");
  EXPECT_EQ(choice["finish_reason"], "length");
  EXPECT_EQ(choice["logprobs"]["tokens"], (Json{"a", "b", "c"}));
  EXPECT_EQ(choice["logprobs"]["top_logprobs"][1].size(), 1U) << "the token itself";
}

TEST_F(CompletionTest, PromptScoresDoNotDependOnTheWay) {
  const Json more = {{"max_tokens", 0}, {"echo", true}, {"logprobs", 2}};
  const Json fresh = complete("some words to score", more)->json()["choices"][0]["logprobs"];
  const Json again = complete("some words to score", more)->json()["choices"][0]["logprobs"];
  EXPECT_EQ(fresh, again) << "a cached prefix is scored, too";
  Json stream = more;
  stream["stream"] = true;
  const auto events = complete("some words to score", stream)->events();
  EXPECT_EQ(events.front()["choices"][0]["logprobs"], fresh);
  EXPECT_EQ(events.front()["choices"][0]["text"], "some words to score");
}

TEST_F(CompletionTest, Streams) {
  const auto events = complete("xyz", {{"max_tokens", 3},
                                       {"stream", true},
                                       {"echo", true},
                                       {"stream_options", {{"include_usage", true}}}})
                          ->events();
  std::string text;
  for (const Json& event : events) {
    EXPECT_EQ(event["object"], "text_completion");
    for (const Json& choice : event["choices"]) text += choice["text"].get<std::string>();
  }
  EXPECT_EQ(text, "xyzdef");
  EXPECT_EQ(events[events.size() - 2]["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(events.back()["usage"]["completion_tokens"], 3);
}

TEST_F(CompletionTest, StreamedOffsetsGoOn) {
  const auto events =
      complete("xyz", {{"max_tokens", 2}, {"stream", true}, {"logprobs", 0}})->events();
  EXPECT_EQ(events[0]["choices"][0]["logprobs"]["text_offset"], Json::array({0}));
  EXPECT_EQ(events[1]["choices"][0]["logprobs"]["text_offset"], Json({1}));
}

TEST_F(CompletionTest, QueueOverflowIsAStatusThoughSomePromptsWereTaken) {
  model.delay_us = 3000;
  limits.max_queue = 3;
  limits.max_sequences = 1;
  start();
  const Json prompts = {"a", "b", "c", "d", "e", "f", "g"};
  const Client client = complete(prompts, {{"stream", true}, {"max_tokens", 100}});
  EXPECT_EQ(client->response.status, 429);
  EXPECT_EQ(client->response.headers, (Headers{{"Retry-After", "1"}}));
  EXPECT_EQ(client->json()["error"]["type"], "rate_limit_error");
  wait_until_idle();
}

TEST_F(CompletionTest, PromptThatLeavesNoRoom) {
  const std::string text(256, 'x');
  EXPECT_EQ(complete(text)->json()["error"]["code"], "context_length_exceeded");
  EXPECT_EQ(complete(text, {{"max_tokens", 0}})->response.status, 200);
  EXPECT_EQ(complete(std::string(255, 'x'))->json()["choices"][0]["finish_reason"], "length");
}

}  // namespace
}  // namespace bp::server::testing
