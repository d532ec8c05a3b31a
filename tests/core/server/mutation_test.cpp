// Requests damaged in every way end in an answer, never in a crash.

#include <random>
#include <string>

#include "fixture.hpp"

namespace bp::server::testing {
namespace {

class MutationTest : public ServerTest {
 protected:
  MutationTest() {
    template_source = "{# <tool_call> #}{{ tools }}" + template_source;
    reply = R"(So.<tool_call>{"name": "f", "arguments": {"a": "\n"}}</tool_call>)";
    start();
  }
};

Json random_value(std::mt19937& random) {
  static const Json kValues = Json::parse(
      R"([null, true, 0, -1, 1, 3, 1e300, 9223372036854775807, 18446744073709551615, 0.5, "", "x",
          "<|im_end|>", [], [[]], [0], ["a"], {}, {"a": 1}, {"type": "text"}, "\ufdd0", [null]])");
  return kValues[random() % kValues.size()];
}

// Puts a random value somewhere in the tree.
void mutate(Json& value, std::mt19937& random) {
  if (!value.is_structured() || value.empty() || random() % 4 == 0) {
    value = random_value(random);
    return;
  }
  auto it = value.begin();
  std::advance(it, static_cast<std::ptrdiff_t>(random() % value.size()));
  mutate(*it, random);
}

TEST_F(MutationTest, EveryRequestIsAnswered) {
  const std::pair<const char*, Json> requests[] = {
      {"/v1/chat/completions", Json::parse(R"({"model": "tiny", "messages": [
          {"role": "system", "content": "a"}, {"role": "user", "content": [{"type": "text", "text": "b"}]},
          {"role": "assistant", "content": null, "tool_calls": [
              {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]}],
          "temperature": 1, "top_k": 3, "stop": ["x"], "stream": true, "logprobs": true,
          "top_logprobs": 2, "stream_options": {"include_usage": true}, "max_tokens": 3, "n": 2,
          "logit_bias": {"1": 2}, "chat_template_kwargs": {"a": 1}, "samplers": ["top_k"]})")},
      {"/v1/chat/completions", Json::parse(R"({"messages": [
          {"role": "user", "content": "a"},
          {"role": "assistant", "reasoning_content": "b", "tool_calls": [
              {"id": "1", "function": {"name": "f", "arguments": {"a": [1]}}}]},
          {"role": "tool", "tool_call_id": "1", "content": "c"}],
          "tools": [{"type": "function", "function": {"name": "f", "description": "d", "strict": false,
              "parameters": {"type": "object", "properties": {"a": {"type": ["string", "null"]}}}}}],
          "tool_choice": "auto", "parallel_tool_calls": false, "n": 2, "logprobs": true})")},
      {"/v1/completions", Json::parse(R"({"model": "tiny", "prompt": ["a", [1, 2]], "echo": true,
          "logprobs": 2, "max_tokens": 2, "seed": 1, "stop_token_ids": [5], "min_tokens": 1})")},
      {"/tokenize", Json::parse(R"({"prompt": "a", "add_special_tokens": false})")},
      {"/detokenize", Json::parse(R"({"tokens": [1, 2]})")}};
  std::mt19937 random(2);
  for (int i = 0; i < 3000; ++i) {
    const auto& [path, request] = requests[random() % std::size(requests)];
    Json body = request;
    for (uint32_t k = random() % 3; k > 0; --k) mutate(body, random);
    const Client client = ask(path, body);
    if (client->streamed) {
      EXPECT_FALSE(client->events().empty());
    } else {
      EXPECT_LT(client->response.status, 500) << path << " " << body;
      EXPECT_TRUE(client->json().is_object());
    }
  }
  wait_until_idle();
}

}  // namespace
}  // namespace bp::server::testing
