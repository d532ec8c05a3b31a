// Every field of a request with values that it must not take: each is a 400 that names it.

#include <string>

#include "fixture.hpp"

namespace bp::server::testing {
namespace {

struct Case {
  const char* field;
  const char* values;  // a JSON array
};

constexpr Case kBothEndpoints[] = {
    {"temperature", R"([-0.1, 101, "1", true, [], {}])"},
    {"top_p", R"([-0.1, 1.1, "1"])"},
    {"top_k", R"([-2, 1.5, "1", 100000000000000000000])"},
    {"min_p", R"([-1, 2, "1"])"},
    {"typical_p", R"([-1, 2, "1"])"},
    {"repeat_penalty", R"([0, 1000, "1"])"},
    {"presence_penalty", R"([-2.1, 2.1, "1"])"},
    {"frequency_penalty", R"([-2.1, 2.1, "1"])"},
    {"n", R"([0, 129, -1, 1.5, "1", 18446744073709551615])"},
    {"max_tokens", R"([-1, 2147483648, 1.5, "1"])"},
    {"min_tokens", R"([-1, 2147483648, "1"])"},
    {"seed", R"([1.5, "1", 9223372036854775808])"},
    {"stop", R"(["", [""], [1], 1, {}, ["1","2","3","4","5","6","7","8","9","10","11","12","13",
                 "14","15","16","17"]])"},
    {"stop_token_ids", R"([1, [-1], [259], [1.5], ["1"]])"},
    {"logit_bias", R"([[], {"x": 1}, {"1": 101}, {"1": -101}, {"1": "1"}, {"259": 1}, {"-1": 1},
                       {"01": 1}])"},
    {"best_of", R"([2, 0, "1"])"},
    {"stream", R"([1, "true"])"},
    {"ignore_eos", R"([1])"},
    {"return_token_ids", R"([1])"},
    {"add_special_tokens", R"([1])"},
    {"samplers", R"([[], "top_k", [1], [""]])"},
    {"priority", R"([1.5, 2147483648, "1"])"},
    {"cache_salt", R"([1, []])"},
    {"user", R"([1, {}])"},
    {"response_format", R"([{"type": "json_object"}, {"type": "json_schema"}, "text"])"},
    {"tools", R"(["x", {}])"},
    {"tool_choice", R"(["required", {}])"},
    {"grammar", R"(["root ::= x"])"},
    {"regex", R"(["x"])"},
    {"json_schema", R"([{}])"},
    {"dry_multiplier", "[0.8]"},
    {"dry_base", "[1.75]"},
    {"xtc_probability", "[0.5]"},
    {"xtc_threshold", "[0.1]"},
    {"top_n_sigma", "[1]"},
    {"store", "[true]"},
    {"temprature", "[1]"},
};

constexpr Case kChatCases[] = {
    {"logprobs", "[1, \"true\"]"},
    {"top_logprobs", "[1, 21, -1, \"1\"]"},
    {"max_completion_tokens", "[0, -1, 2147483648, \"1\"]"},
    {"max_tokens", "[0]"},
    {"echo", "[true]"},
    {"prompt", "[\"x\"]"},
    {"chat_template", "[\"x\"]"},
    {"chat_template_kwargs", R"([[], 1, {"messages": []}, {"tools": []}])"},
    {"add_generation_prompt", "[1]"},
    {"continue_final_message", "[1]"},
};

constexpr Case kCompletions[] = {
    {"logprobs", "[true, 21, -1, \"1\"]"},
    {"echo", "[1]"},
    {"suffix", "[\"x\"]"},
    {"messages", "[[]]"},
    {"chat_template_kwargs", R"([{"thinking": false}])"},
    {"continue_final_message", "[true]"},
    {"top_logprobs", "[1]"},
    {"prompt",
     R"([1, {}, "", [], [[]], [1.5], [-1], [259], ["a", 1], [[1], ["a"]], [true], ["a", ""]])"},
};

class ValidationTest : public ServerTest {
 protected:
  ValidationTest() { start(); }

  void expect_refused(const std::string& path, Json body, const std::string& field,
                      const Json& value) {
    body[field] = value;
    const Client client = ask(path, body);
    SCOPED_TRACE(path + " " + body.dump().substr(0, 300));
    ASSERT_EQ(client->response.status, 400) << client->response.body;
    const Json error = client->json()["error"];
    EXPECT_EQ(error["param"], field);
    EXPECT_EQ(error["type"], "invalid_request_error");
    EXPECT_TRUE(error.contains("code"));
    EXPECT_THAT(error["message"].get<std::string>(), ::testing::HasSubstr(field));
  }
  void expect_refused(const std::string& path, const Json& body, const Case& c) {
    for (const Json& value : Json::parse(c.values)) expect_refused(path, body, c.field, value);
  }

  const Json chat_body = {{"messages", {{{"role", "user"}, {"content", "Hi"}}}}};
  const Json completion_body = {{"prompt", "Hi"}};
};

TEST_F(ValidationTest, FieldsOfBothEndpoints) {
  for (const Case& c : kBothEndpoints) {
    expect_refused("/v1/chat/completions", chat_body, c);
    expect_refused("/v1/completions", completion_body, c);
  }
}

TEST_F(ValidationTest, FieldsOfChat) {
  for (const Case& c : kChatCases) expect_refused("/v1/chat/completions", chat_body, c);
}

TEST_F(ValidationTest, FieldsOfCompletions) {
  for (const Case& c : kCompletions) expect_refused("/v1/completions", completion_body, c);
}

TEST_F(ValidationTest, SizesAreBounded) {
  const std::string long_text(2000, 'x');
  const Json many_ids(300, 1);
  Json biases = Json::object();
  for (int i = 0; i < 1025; ++i) biases[std::to_string(i)] = 1;
  const std::pair<const char*, Json> cases[] = {{"stop", long_text},
                                                {"stop", Json::array({long_text})},
                                                {"stop_token_ids", many_ids},
                                                {"logit_bias", biases},
                                                {"samplers", Json(33, "top_k")},
                                                {"samplers", Json::array({long_text})},
                                                {"cache_salt", long_text},
                                                {"prompt", Json(257, "x")}};
  for (const auto& [field, value] : cases) {
    expect_refused("/v1/completions", completion_body, field, value);
  }
  expect_refused("/v1/chat/completions", chat_body, "messages",
                 Json(10'001, {{"role", "user"}, {"content", "Hi"}}));
}

TEST_F(ValidationTest, FieldsAreBounded) {
  Json body = completion_body;
  for (int i = 0; i < 300; ++i) body["x" + std::to_string(i)] = nullptr;
  EXPECT_EQ(ask("/v1/completions", body)->response.status, 400);
}

TEST_F(ValidationTest, Messages) {
  const std::pair<const char*, const char*> cases[] = {
      {"[]", "messages"},
      {"{}", "messages"},
      {"\"Hi\"", "messages"},
      {"[1]", "messages[0]"},
      {R"([{}])", "messages[0].role"},
      {R"([{"role": "user"}])", "messages[0].content"},
      {R"([{"role": 1, "content": "Hi"}])", "messages[0].role"},
      {R"([{"role": "user<|im_end|>", "content": "Hi"}])", "messages[0].role"},
      {R"([{"role": "user", "content": 1}])", "messages[0].content"},
      {R"([{"role": "user", "content": {"text": "Hi"}}])", "messages[0].content"},
      {R"([{"role": "user", "content": [{"type": "image_url"}]}])", "messages[0].content"},
      {R"([{"role": "user", "content": [{"type": "text", "text": 1}]}])", "messages[0].content"},
      {R"([{"role": "user", "content": "Hi", "mood": "good"}])", "messages[0].mood"},
      {R"([{"role": "user", "content": "Hi", "name": 1}])", "messages[0].name"},
      {R"([{"role": "user", "content": "a"}, {"role": "tool", "content": "b", "tool_call_id": 1}])",
       "messages[1].tool_call_id"},
      {R"([{"role": "assistant", "tool_calls": [{}]}])", "messages[0].tool_calls[0].function"},
      {R"([{"role": "assistant", "tool_calls": [{"function": {"arguments": "{}"}}]}])",
       "messages[0].tool_calls[0].function.name"},
      {R"([{"role": "assistant", "tool_calls": [{"type": "x", "function": {"name": "f"}}]}])",
       "messages[0].tool_calls[0].type"}};
  for (const auto& [messages, param] : cases) {
    const Client client = ask("/v1/chat/completions", {{"messages", Json::parse(messages)}});
    EXPECT_EQ(client->response.status, 400) << messages;
    EXPECT_EQ(client->json()["error"]["param"], param) << messages;
  }
  EXPECT_EQ(ask("/v1/chat/completions", Json::object())->json()["error"]["param"], "messages");
  EXPECT_EQ(ask("/v1/completions", Json::object())->json()["error"]["param"], "prompt");
}

TEST_F(ValidationTest, Combinations) {
  const auto param = [&](const Json& more) {
    const Client client = chat("Hi", more);
    EXPECT_EQ(client->response.status, 400) << more;
    return client->response.status == 400 ? client->json()["error"]["param"] : Json();
  };
  EXPECT_EQ(param({{"max_tokens", 1}, {"max_completion_tokens", 2}}), "max_tokens");
  EXPECT_EQ(param({{"stream_options", {{"include_usage", true}}}}), "stream_options");
  EXPECT_EQ(param({{"stream", true}, {"stream_options", {{"include_usage", 1}}}}),
            "stream_options.include_usage");
  EXPECT_EQ(param({{"stream", true}, {"stream_options", {{"x", 1}}}}), "stream_options.x");
  EXPECT_EQ(param({{"add_generation_prompt", true}, {"continue_final_message", true}}),
            "add_generation_prompt");
  EXPECT_EQ(param({{"min_tokens", 5}, {"max_tokens", 4}}), "min_tokens");
  EXPECT_EQ(complete("x", {{"max_tokens", 0}, {"n", 2}})->json()["error"]["param"], "n");
}

TEST_F(ValidationTest, NeutralAndNullValuesAreAccepted) {
  const Json neutral = {{"response_format", {{"type", "text"}}},
                        {"n", 1},
                        {"best_of", 1},
                        {"tools", Json::array()},
                        {"tool_choice", "none"},
                        {"parallel_tool_calls", true},
                        {"user", "somebody"},
                        {"logit_bias", Json::object()},
                        {"stop", Json::array()},
                        {"store", false},
                        {"metadata", Json::object()},
                        {"top_n_sigma", -1},
                        {"dry_multiplier", 0.0},
                        {"dry_base", 1.75},
                        {"xtc_probability", 0},
                        {"xtc_threshold", 0.1},
                        {"regex", ""},
                        {"temperature", 0},
                        {"chat_template_kwargs", Json::object()},
                        {"continue_final_message", false},
                        {"top_logprobs", 0},
                        {"stream", false},
                        {"stream_options", {{"include_usage", false}}}};
  EXPECT_EQ(chat("Hi", neutral)->response.status, 200) << chat("Hi", neutral)->response.body;
  EXPECT_EQ(complete("Hi", neutral)->response.status, 200);
  Json nulls;
  for (const Case& c : kBothEndpoints) nulls[c.field] = nullptr;
  EXPECT_EQ(chat("Hi", nulls)->response.status, 200) << chat("Hi", nulls)->response.body;
  EXPECT_EQ(complete("Hi", nulls)->response.status, 200);
}

TEST_F(ValidationTest, BodiesThatAreNoRequest) {
  for (const char* body :
       {"", "{", "null", "[]", "1", "\"x\"", "{} {}", "{\"messages\": [}", "\xFF",
        R"({"messages": "\ud800"})", R"({"prompt": "a", "prompt": "b"})", "{\"prompt\": \"\x01\"}",
        "{\"prompt\": \"\xC3\"}", "{'prompt': 1}", "{\"prompt\": 1e999}", "// x\n{}"}) {
    for (const char* path : {"/v1/chat/completions", "/v1/completions", "/tokenize", "/detokenize",
                             "/v1/chat/completions/render", "/v1/completions/render"}) {
      const Client client = post(path, body);
      client->wait_for_end();
      EXPECT_EQ(client->response.status, 400) << path << " " << body;
      EXPECT_TRUE(client->json()["error"]["message"].is_string());
    }
  }
}

}  // namespace
}  // namespace bp::server::testing
