#include <algorithm>
#include <cmath>
#include <latch>
#include <vector>

#include "core/engine/stats.hpp"
#include "fixture.hpp"

namespace bp::server::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ChatTest : public ServerTest {
 protected:
  ChatTest() { start(); }
};

std::string streamed_text(const std::vector<Json>& events, uint32_t index = 0) {
  std::string text;
  for (const Json& event : events) {
    for (const Json& choice : event["choices"]) {
      if (choice["index"] == index && choice["delta"].contains("content")) {
        text += choice["delta"]["content"].get<std::string>();
      }
    }
  }
  return text;
}

TEST_F(ChatTest, AnswersWhole) {
  const Client client = chat("Hi");
  ASSERT_EQ(client->response.status, 200) << client->response.body;
  const Json body = client->json();
  EXPECT_THAT(body["id"].get<std::string>(), ::testing::StartsWith("chatcmpl-"));
  EXPECT_EQ(body["object"], "chat.completion");
  EXPECT_EQ(body["model"], "tiny");
  EXPECT_GT(body["created"].get<int64_t>(), 1'700'000'000);
  const Json expected = {
      {"index", 0},
      {"message", {{"role", "assistant"}, {"content", kReply}, {"refusal", nullptr}}},
      {"logprobs", nullptr},
      {"finish_reason", "stop"}};
  EXPECT_EQ(body["choices"], Json::array({expected}));
  // <|start|>user\nHi<|im_end|>\n<|start|>assistant\n
  EXPECT_EQ(body["usage"]["prompt_tokens"], 21);
  EXPECT_EQ(body["usage"]["completion_tokens"], kReply.size() + 1);
  EXPECT_EQ(body["usage"]["total_tokens"], 21 + kReply.size() + 1);
  EXPECT_EQ(body["usage"]["prompt_tokens_details"]["cached_tokens"], 0);
}

TEST_F(ChatTest, CachedTokensAreCounted) {
  chat("The same question twice");
  const Json usage = chat("The same question twice")->json()["usage"];
  EXPECT_GE(usage["prompt_tokens_details"]["cached_tokens"].get<int>(), 32);
}

TEST_F(ChatTest, Streams) {
  const Client client = chat("Hi", {{"stream", true}});
  ASSERT_TRUE(client->streamed);
  EXPECT_THAT(client->response.content_type, ::testing::StartsWith("text/event-stream"));
  const auto events = client->events();
  EXPECT_EQ(events.front()["object"], "chat.completion.chunk");
  EXPECT_EQ(events.front()["choices"][0]["delta"], (Json{{"role", "assistant"}, {"content", ""}}));
  EXPECT_EQ(streamed_text(events), kReply);
  EXPECT_EQ(events.back()["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(events.back()["choices"][0]["delta"], Json::object());
  // One event for each character of the reply; ü and ß are two tokens each.
  EXPECT_EQ(events.size(), 1 + kReply.size() - 2 + 1);
  for (const Json& event : events) {
    EXPECT_EQ(event["id"], events.front()["id"]);
    EXPECT_FALSE(event.contains("usage"));
  }
}

TEST_F(ChatTest, StreamsUsageWhenAsked) {
  const auto events =
      chat("Hi", {{"stream", true}, {"stream_options", {{"include_usage", true}}}})->events();
  EXPECT_EQ(events.back()["choices"], Json::array());
  EXPECT_EQ(events.back()["usage"]["prompt_tokens"], 21);
  EXPECT_EQ(events.back()["usage"]["completion_tokens"], kReply.size() + 1);
  for (size_t i = 0; i + 1 < events.size(); ++i) EXPECT_TRUE(events[i].at("usage").is_null());
}

TEST_F(ChatTest, SeveralChoices) {
  const Json body = chat("Hi", {{"n", 3}})->json();
  ASSERT_EQ(body["choices"].size(), 3U);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(body["choices"][i]["index"], i);
    EXPECT_EQ(body["choices"][i]["message"]["content"], kReply);
  }
  EXPECT_EQ(body["usage"]["prompt_tokens"], 21) << "a prompt counts once";
  EXPECT_EQ(body["usage"]["completion_tokens"], 3 * (kReply.size() + 1));

  const auto events = chat("Hi", {{"n", 3}, {"stream", true}})->events();
  for (uint32_t i = 0; i < 3; ++i) EXPECT_EQ(streamed_text(events, i), kReply);
}

TEST_F(ChatTest, StopsAtStringsAndLength) {
  const Json stopped = chat("Hi", {{"stop", {"ch, W"}}})->json()["choices"][0];
  EXPECT_EQ(stopped["message"]["content"], "Gr\xC3\xBC\xC3\x9F di");
  EXPECT_EQ(stopped["finish_reason"], "stop");
  const Json cut = chat("Hi", {{"max_completion_tokens", 3}})->json()["choices"][0];
  EXPECT_EQ(cut["message"]["content"], "Gr\xEF\xBF\xBD") << "half a character is replaced";
  EXPECT_EQ(cut["finish_reason"], "length");
  EXPECT_EQ(chat("Hi", {{"max_tokens", 1}})->json()["choices"][0]["message"]["content"], "G");
  const Json at_token = chat("Hi", {{"stop_token_ids", {'d'}}})->json()["choices"][0];
  EXPECT_EQ(at_token["message"]["content"], "Gr\xC3\xBC\xC3\x9F ");
}

TEST_F(ChatTest, Logprobs) {
  const Client client = chat("Hi", {{"logprobs", true}, {"top_logprobs", 2}, {"max_tokens", 3}});
  const Json content = client->json()["choices"][0]["logprobs"]["content"];
  ASSERT_EQ(content.size(), 3U);
  EXPECT_EQ(content[0]["token"], "G");
  EXPECT_EQ(content[0]["bytes"], Json({'G'}));
  EXPECT_LE(content[0]["logprob"].get<double>(), 0);
  ASSERT_EQ(content[0]["top_logprobs"].size(), 2U);
  EXPECT_EQ(content[0]["top_logprobs"][0]["token"], "G");
  EXPECT_EQ(content[0]["top_logprobs"][0]["logprob"], content[0]["logprob"]);
  EXPECT_EQ(content[2]["bytes"], Json({0xC3})) << "half a character";

  const auto events = chat("Hi", {{"logprobs", true}, {"stream", true}})->events();
  size_t n = 0;
  for (const Json& event : events) {
    const Json& logprobs = event["choices"][0]["logprobs"];
    if (!logprobs.is_null()) n += logprobs["content"].size();
  }
  EXPECT_EQ(n, kReply.size() + 1) << "one for each token, however the text is cut";
}

TEST_F(ChatTest, ReturnsTokenIds) {
  const Json body = chat("Hi", {{"return_token_ids", true}})->json();
  EXPECT_EQ(body["prompt_token_ids"].size(), 21U);
  EXPECT_EQ(body["prompt_token_ids"][0], kStart);
  EXPECT_EQ(body["choices"][0]["token_ids"].size(), kReply.size() + 1);
  EXPECT_EQ(body["choices"][0]["token_ids"].back(), kEnd);

  const auto events = chat("Hi", {{"return_token_ids", true}, {"stream", true}})->events();
  EXPECT_EQ(events.front()["prompt_token_ids"].size(), 21U);
  size_t n = 0;
  for (const Json& event : events) {
    if (event["choices"][0].contains("token_ids")) n += event["choices"][0]["token_ids"].size();
  }
  EXPECT_EQ(n, kReply.size() + 1);
}

TEST_F(ChatTest, ContentPartsAreLines) {
  const Json parts = {{{"type", "text"}, {"text", "one"}}, {{"type", "text"}, {"text", "two"}}};
  const Json body = {{"messages", {{{"role", "user"}, {"content", parts}}}}};
  EXPECT_EQ(ask("/chat/completions/render", body)->json()["prompt"],
            "<|start|>user\none\ntwo<|im_end|>\n<|start|>assistant\n");
}

TEST_F(ChatTest, TemplateVariables) {
  const Json body = {{"messages", {{{"role", "user"}, {"content", "a"}}}},
                     {"chat_template_kwargs", {{"thinking", "hard"}}}};
  EXPECT_THAT(ask("/chat/completions/render", body)->json()["prompt"].get<std::string>(),
              ::testing::EndsWith("<|start|>assistant\n(hard)"));
}

TEST_F(ChatTest, ToolCallsOfThePastReachTheTemplate) {
  const Json call = {{"id", "1"},
                     {"type", "function"},
                     {"function", {{"name", "f"}, {"arguments", "{\"x\": 1}"}}}};
  const Json body = {
      {"messages",
       {{{"role", "user"}, {"content", "a"}},
        {{"role", "assistant"}, {"content", nullptr}, {"tool_calls", Json::array({call})}},
        {{"role", "tool"}, {"tool_call_id", "1"}, {"content", "2"}}}}};
  const std::string prompt =
      ask("/chat/completions/render", body)->json()["prompt"].get<std::string>();
  EXPECT_THAT(prompt, HasSubstr(R"("arguments": {"x": 1})"));
  EXPECT_THAT(prompt, HasSubstr("<|start|>tool\n2<|im_end|>"));
}

TEST_F(ChatTest, ContinuesTheFinalMessage) {
  const Json body = {
      {"messages",
       {{{"role", "user"}, {"content", "a"}}, {{"role", "assistant"}, {"content", "It is "}}}},
      {"continue_final_message", true}};
  EXPECT_EQ(ask("/chat/completions/render", body)->json()["prompt"],
            "<|start|>user\na<|im_end|>\n<|start|>assistant\nIt is ");
}

// What the template puts behind the message holds the same letters.
TEST_F(ChatTest, ContinuesAFinalMessageThatItsEndRepeats) {
  for (const std::string content : {"<", "end", "i", "m", "|>", "a < b <", "<|im"}) {
    const Json body = {
        {"messages",
         {{{"role", "user"}, {"content", "a"}}, {{"role", "assistant"}, {"content", content}}}},
        {"continue_final_message", true}};
    EXPECT_EQ(ask("/chat/completions/render", body)->json()["prompt"],
              "<|start|>user\na<|im_end|>\n<|start|>assistant\n" + content);
  }
}

TEST_F(ChatTest, AStepIsOnePieceOfAStream) {
  const Client client = chat("Hi", {{"n", 8}, {"stream", true}});
  EXPECT_GE(client->events().size(), 8 * kReply.size());
  EXPECT_LE(client->pieces.size(), stats().steps.get());
}

// Short texts are not: they would wait for what the workers are at.
TEST_F(ChatTest, WhatIsWholeAndLongIsMadeByAWorker) {
  std::latch go_on(1);
  for (int i = 0; i < 2; ++i) {
    workers.post([&] { go_on.wait(); });
  }
  const std::string body = R"({"messages": [{"role": "user", "content": "Hi"}])";
  const Client plain = post("/v1/chat/completions", body + "}");
  plain->wait_for_end();
  EXPECT_EQ(plain->json()["choices"][0]["message"]["content"], kReply);
  std::vector<Client> clients;
  for (const char* more : {R"("logprobs": true)", R"("return_token_ids": true)", R"("n": 128)"}) {
    clients.push_back(post("/v1/chat/completions", body + ", " + more + "}"));
  }
  wait_until_idle();
  for (const Client& client : clients) EXPECT_FALSE(client->has_ended());
  go_on.count_down();
  for (const Client& client : clients) {
    client->wait_for_end();
    EXPECT_EQ(client->json()["choices"].back()["message"]["content"], kReply);
  }
  workers.stop();
}

TEST_F(ChatTest, AClientThatLeavesFreesItsBlocks) {
  model.delay_us = 2000;
  const Client client = post("/v1/chat/completions",
                             R"({"messages": [{"role": "user", "content": "Hi"}], "n": 4,
                                 "stream": true, "ignore_eos": true})");
  client->wait_for_pieces(3);
  EXPECT_FALSE(app->idle());
  client->cancel();
  wait_until_idle();
  EXPECT_EQ(stats().kv_blocks_used.get(), 0U);
  EXPECT_EQ(stats().finished[static_cast<size_t>(engine::FinishReason::kCancelled)].get(), 4U);
  model.delay_us = 0;
  EXPECT_EQ(chat("Hi")->json()["choices"][0]["message"]["content"], kReply);
}

// At once: the engine may be at a long step.
TEST_F(ChatTest, WhatIsCancelledEndsWithAnError) {
  model.delay_us = 2000;
  Json body = {{"messages", Json::array({{{"role", "user"}, {"content", "Hi"}}})},
               {"ignore_eos", true}};
  const Client whole = post("/v1/chat/completions", body.dump());
  body["stream"] = true;
  const Client streamed = post("/v1/chat/completions", body.dump());
  streamed->wait_for_pieces(3);
  whole->cancel();
  EXPECT_TRUE(whole->has_ended());
  EXPECT_EQ(whole->response.status, 503);
  EXPECT_EQ(whole->json()["error"]["type"], "server_error");
  streamed->cancel();
  EXPECT_TRUE(streamed->has_ended());
  EXPECT_THAT(streamed->events().back()["error"]["message"], HasSubstr("shutting down"));
  wait_until_idle();
}

TEST_F(ChatTest, AFailedStepIsAnErrorOfTheRequestAlone) {
  model.fail_at = 0;
  const Client whole = chat("Hi");
  EXPECT_EQ(whole->response.status, 500);
  EXPECT_EQ(whole->json()["error"]["type"], "server_error");

  model.fail_at = 0;
  const Client before = chat("Hi", {{"stream", true}});
  EXPECT_FALSE(before->streamed) << "nothing was sent yet: a status tells it";
  EXPECT_EQ(before->response.status, 500);

  model.delay_us = 5000;  // the stream begins before the fault
  model.fail_at = 5;
  const auto events = chat("Hi", {{"stream", true}, {"n", 2}})->events();
  EXPECT_THAT(events.back()["error"]["message"].get<std::string>(), HasSubstr("told to fail"));
  wait_until_idle();
  model.delay_us = 0;
  EXPECT_EQ(chat("Hi")->json()["choices"][0]["message"]["content"], kReply);
}

TEST_F(ChatTest, SeedMakesTheAnswer) {
  model.script = nullptr;
  const Json more = {{"temperature", 1.0}, {"seed", 7}, {"max_tokens", 12}};
  const auto text = [&](const Json& m) {
    return chat("Hi", m)->json()["choices"][0]["message"]["content"].get<std::string>();
  };
  EXPECT_EQ(text(more), text(more));
  Json other = more;
  other["seed"] = 8;
  EXPECT_NE(text(more), text(other));
  other.erase("seed");
  EXPECT_NE(text(other), text(other));
}

TEST_F(ChatTest, SamplersNameTheChain) {
  EXPECT_EQ(chat("Hi", {{"samplers", {"temperature"}}})->response.status, 200);
  const Client unread = chat("Hi", {{"samplers", {"temperature"}}, {"top_k", 3}});
  EXPECT_EQ(unread->response.status, 400);
  EXPECT_EQ(unread->json()["error"]["param"], "top_k");
  const Client twice = chat("Hi", {{"samplers", {"top_k", "temperature", "samplers/top_k"}}});
  EXPECT_EQ(twice->response.status, 400);
  EXPECT_EQ(twice->json()["error"]["param"], "samplers");
  const Client unknown = chat("Hi", {{"samplers", {"temprature"}}});
  EXPECT_EQ(unknown->response.status, 400);
  EXPECT_EQ(unknown->json()["error"]["param"], "samplers");
}

TEST_F(ChatTest, LogitBiasDecides) {
  const Json more = {{"logit_bias", {{"65", 100}}}, {"max_tokens", 3}};
  model.script = nullptr;
  EXPECT_EQ(chat("Hi", more)->json()["choices"][0]["message"]["content"], "AAA");
}

TEST_F(ChatTest, PromptLongerThanTheContext) {
  for (const bool stream : {false, true}) {
    const Client client = chat(std::string(400, 'x'), {{"stream", stream}});
    EXPECT_EQ(client->response.status, 400);
    EXPECT_FALSE(client->streamed);
    EXPECT_EQ(client->json()["error"]["code"], "context_length_exceeded");
    EXPECT_EQ(client->json()["error"]["param"], "messages");
  }
  const Client huge = chat(std::string(1 << 20, 'x'));
  EXPECT_EQ(huge->json()["error"]["code"], "context_length_exceeded");
}

}  // namespace
}  // namespace bp::server::testing
