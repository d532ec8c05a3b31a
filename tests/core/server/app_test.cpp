#include <future>
#include <string>
#include <thread>

#include "core/engine/stats.hpp"
#include "core/server/api_keys.hpp"
#include "fixture.hpp"

namespace bp::server::testing {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Pair;

using AppTest = ServerTest;

std::string header(const Client& client, const std::string& name) {
  for (const auto& [key, value] : client->response.headers) {
    if (key == name) return value;
  }
  return {};
}

const Json kChat = {{"messages", {{{"role", "user"}, {"content", "Hi"}}}}};

TEST_F(AppTest, PathsAndMethods) {
  start();
  EXPECT_EQ(get("/health")->response.status, 200);
  EXPECT_EQ(get("/v1/health")->response.status, 200);
  EXPECT_EQ(get("/ready")->response.status, 200);
  for (const char* path : {"/", "/v1", "/v1/", "/v2/models", "/v1/embeddings", "/models/",
                           "/v1/v1/models", "/chat/completions/x", "/v1/chat/completions/"}) {
    const Client client = get(path);
    EXPECT_EQ(client->response.status, 404) << path;
    EXPECT_EQ(client->json()["error"]["type"], "not_found_error");
  }
  const Client client = get("/v1/chat/completions");
  EXPECT_EQ(client->response.status, 405);
  EXPECT_EQ(header(client, "Allow"), "POST");
  EXPECT_EQ(header(post("/v1/models", ""), "Allow"), "GET, HEAD");
  const HttpRequest head{.method = "HEAD",
                         .path = "/health",
                         .content_type = {},
                         .content_encoding = {},
                         .authorization = {},
                         .body = {}};
  EXPECT_EQ(request(head)->response.status, 200);
}

TEST_F(AppTest, ContentType) {
  start();
  for (const char* type :
       {"", "text/plain", "application/jsonl", "application/x-www-form-urlencoded"}) {
    HttpRequest r{.method = "POST",
                  .path = "/v1/completions",
                  .content_type = type,
                  .content_encoding = {},
                  .authorization = {},
                  .body = "{}"};
    EXPECT_EQ(request(r)->response.status, 415) << type;
  }
  for (const char* type : {"application/json", "Application/JSON; charset=utf-8"}) {
    HttpRequest r{.method = "POST",
                  .path = "/v1/completions",
                  .content_type = type,
                  .content_encoding = {},
                  .authorization = {},
                  .body = "{}"};
    EXPECT_EQ(request(r)->response.status, 400) << type;
  }
}

TEST_F(AppTest, ContentEncoding) {
  start();
  const auto answer_to = [this](const char* encoding) {
    return request({.method = "POST",
                    .path = "/v1/completions",
                    .content_type = "application/json",
                    .content_encoding = encoding,
                    .authorization = {},
                    .body = "{}"})
        ->response;
  };
  const HttpResponse refusal = answer_to("gzip");
  EXPECT_EQ(refusal.status, 415);
  EXPECT_THAT(refusal.body, HasSubstr("must not be compressed"));
  EXPECT_THAT(refusal.headers, Contains(Pair("Accept-Encoding", "identity")));
  EXPECT_EQ(answer_to("Identity").status, 400);
}

TEST_F(AppTest, KeysAreCheckedBeforeTheBody) {
  config.api_keys = {{"secret-a", "team-a", 1}, {"secret-b", "team-b", 2}};
  start();
  const auto with_key = [&](const std::string& authorization) {
    Route route = app->router()({.method = "POST",
                                 .path = "/v1/chat/completions",
                                 .content_type = "application/json",
                                 .content_encoding = {},
                                 .authorization = authorization,
                                 .body = {}});
    return route.verdict == Route::Verdict::kAccept ? 200 : route.refusal.status;
  };
  EXPECT_EQ(with_key("Bearer secret-a"), 200);
  EXPECT_EQ(with_key("bearer  secret-b"), 200);
  for (const char* wrong : {"", "Bearer", "Bearer ", "Bearer secret", "Bearer secret-aa",
                            "Basic secret-a", "secret-a", "Bearer secret-a x"}) {
    EXPECT_EQ(with_key(wrong), 401) << wrong;
  }
  const Client client = get("/v1/models");
  EXPECT_EQ(client->response.status, 401);
  EXPECT_EQ(client->json()["error"]["type"], "authentication_error");
  EXPECT_THAT(client->response.body, ::testing::Not(HasSubstr("secret")));
  for (const char* open : {"/health", "/ready", "/metrics"}) {
    EXPECT_EQ(get(open)->response.status, 200) << open;
  }
}

TEST(ApiKeys, MapToTenantAndPriority) {
  const std::vector<config::ApiKey> keys = {{"a", "team-a", 1}, {"b", "team-b", 2}};
  const auto caller = find_caller(keys, "Bearer b");
  ASSERT_TRUE(caller);
  EXPECT_EQ(caller->tenant, "team-b");
  EXPECT_EQ(caller->priority, 2);
  EXPECT_EQ(find_caller({}, "")->tenant, "");
  EXPECT_FALSE(find_caller({{"", "broken", 0}}, "Bearer "));
  EXPECT_TRUE(equal_in_constant_time("abc", "abc"));
  EXPECT_FALSE(equal_in_constant_time("abcabc", "abc"));
  EXPECT_FALSE(equal_in_constant_time("", "abc"));
}

TEST_F(AppTest, AKeysPriorityIsTheHighestOfItsRequests) {
  config.api_keys = {{"a", "team-a", 1}};
  start();
  const auto status = [&](int priority) {
    Json body = kChat;
    body["priority"] = priority;
    const Client client = request({.method = "POST",
                                   .path = "/v1/chat/completions",
                                   .content_type = "application/json",
                                   .content_encoding = {},
                                   .authorization = "Bearer a",
                                   .body = body.dump()});
    client->wait_for_end();
    return client->response.status;
  };
  EXPECT_EQ(status(1), 200);
  EXPECT_EQ(status(-3), 200);
  EXPECT_EQ(status(2), 400);
}

TEST_F(AppTest, ModelsAreListedAndFoundByName) {
  start();
  const Json list = get("/v1/models")->json();
  EXPECT_EQ(list["object"], "list");
  ASSERT_EQ(list["data"].size(), 1U);
  EXPECT_EQ(list["data"][0]["id"], "tiny");
  EXPECT_EQ(list["data"][0]["object"], "model");
  EXPECT_EQ(list["data"][0]["created"], 1'700'000'000);
  EXPECT_EQ(get("/v1/models/tiny")->json(), list["data"][0]);
  EXPECT_EQ(get("/v1/models/tin%79")->json(), list["data"][0]);
  for (const char* path : {"/v1/models/other", "/v1/models/%", "/v1/models/tiny%2"}) {
    const Client client = get(path);
    EXPECT_EQ(client->response.status, 404) << path;
    EXPECT_EQ(client->json()["error"]["code"], "model_not_found");
  }
  const Client unknown = chat("Hi", {{"model", "other"}});
  EXPECT_EQ(unknown->response.status, 404);
  EXPECT_EQ(unknown->json()["error"]["code"], "model_not_found");
  EXPECT_EQ(unknown->json()["error"]["param"], "model");
  EXPECT_EQ(chat("Hi", {{"model", 1}})->json()["error"]["param"], "model");
  EXPECT_EQ(ask("/v1/chat/completions", kChat)->response.status, 200) << "the only model";
}

TEST_F(AppTest, SeveralModelsOfWhichOneStillLoads) {
  app = std::make_unique<App>(config, std::vector<std::string>{"tiny", "slow/one"});
  EXPECT_EQ(get("/ready")->response.status, 503);
  EXPECT_EQ(get("/v1/models")->json()["data"], Json::array());
  tiny = make_model("tiny");
  app->add_model(tiny);
  EXPECT_EQ(get("/ready")->response.status, 503);
  EXPECT_EQ(chat("Hi")->response.status, 200);
  const Client loading = chat("Hi", {{"model", "slow/one"}});
  EXPECT_EQ(loading->response.status, 503);
  EXPECT_EQ(header(loading, "Retry-After"), "5");
  EXPECT_EQ(get("/v1/models/slow/one")->response.status, 503);
  EXPECT_EQ(ask("/v1/chat/completions", kChat)->json()["error"]["param"], "model");
  app->add_model(make_model("slow/one"));
  EXPECT_EQ(get("/ready")->response.status, 200);
  EXPECT_EQ(chat("Hi", {{"model", "slow/one"}})->json()["model"], "slow/one");
  EXPECT_EQ(get("/v1/models/slow%2Fone")->response.status, 200);
}

TEST_F(AppTest, DrainingFinishesWhatRuns) {
  start();
  model.delay_us = 2000;
  const Client running = post("/v1/chat/completions", Json(kChat).dump());
  while (app->idle()) std::this_thread::yield();
  app->start_draining();
  EXPECT_EQ(get("/ready")->response.status, 503);
  EXPECT_EQ(get("/health")->response.status, 200);
  EXPECT_EQ(chat("Hi")->response.status, 503);
  running->wait_for_end();
  EXPECT_EQ(running->json()["choices"][0]["message"]["content"], kReply);
  wait_until_idle();
}

TEST_F(AppTest, AFullQueueSaysWhenToComeBack) {
  limits.max_queue = 1;
  limits.max_sequences = 1;
  start();
  model.delay_us = 5000;
  std::vector<Client> clients;
  for (int i = 0; i < 6; ++i) clients.push_back(post("/v1/chat/completions", Json(kChat).dump()));
  int refused = 0;
  for (const Client& client : clients) {
    client->wait_for_end();
    if (client->response.status == 200) continue;
    ++refused;
    EXPECT_EQ(client->response.status, 429);
    EXPECT_EQ(header(client, "Retry-After"), "1");
    EXPECT_EQ(client->json()["error"]["code"], "queue_full");
  }
  EXPECT_GE(refused, 1);
  EXPECT_LT(refused, 6);
}

TEST_F(AppTest, AFullQueueSaysSoBeforeARequestIsRead) {
  limits.max_queue = 1;
  start();
  std::promise<void> goes_on;
  model.before_step = [open = goes_on.get_future().share()] { open.wait(); };
  const Client running = post("/v1/chat/completions", Json(kChat).dump());
  while (stats().prompt_tokens_total.get() == 0) std::this_thread::yield();
  const Client waiting = post("/v1/chat/completions", Json(kChat).dump());
  EXPECT_EQ(chat("Hi", {{"no_such_field", 1}})->response.status, 429);
  goes_on.set_value();
  running->wait_for_end();
  waiting->wait_for_end();
  EXPECT_EQ(waiting->response.status, 200);
  EXPECT_EQ(chat("Hi", {{"no_such_field", 1}})->response.status, 400);
}

TEST_F(AppTest, ALostDeviceIsNotReady) {
  start();
  model.fail_status = BP_DEVICE_LOST;
  model.fail_at = 0;
  EXPECT_EQ(chat("Hi")->response.status, 500);
  for (int i = 0; i < 1000 && tiny->engine->healthy(); ++i) std::this_thread::yield();
  EXPECT_EQ(chat("Hi")->response.status, 503);
  EXPECT_EQ(get("/ready")->response.status, 503);
}

TEST_F(AppTest, RequestTemplatesNeedPermission) {
  config.request_templates = true;
  start();
  Json body = kChat;
  body["chat_template"] = "{{ messages[0].content }}!";
  EXPECT_EQ(ask("/v1/chat/completions/render", body)->json()["prompt"], "Hi!");
  body["chat_template"] = "{{ raise_exception('no') }}";
  EXPECT_EQ(ask("/v1/chat/completions/render", body)->json()["error"]["param"], "messages");
  body["chat_template"] = "{% broken";
  EXPECT_EQ(ask("/v1/chat/completions/render", body)->json()["error"]["param"], "chat_template");
}

TEST_F(AppTest, TokenizeAndBack) {
  start();
  const Json expected = {
      {"tokens", {kStart, 'a', ' ', 0xC3, 0xBC}}, {"count", 5}, {"max_model_len", 256}};
  EXPECT_EQ(ask("/tokenize", {{"prompt", "<|start|>a \xC3\xBC"}})->json(), expected);
  EXPECT_EQ(ask("/v1/tokenize", {{"content", "<|start|>a \xC3\xBC"}})->json(), expected);
  EXPECT_EQ(ask("/tokenize", kChat)->json()["count"], 21);
  EXPECT_EQ(ask("/detokenize", {{"tokens", expected["tokens"]}})->json(),
            (Json{{"prompt", "<|start|>a \xC3\xBC"}}));
  EXPECT_EQ(ask("/detokenize", {{"tokens", Json::array()}})->json()["prompt"], "");
  const std::pair<const char*, Json> wrong[] = {
      {"/tokenize", Json::object()},
      {"/tokenize", {{"prompt", 1}}},
      {"/tokenize", {{"prompt", "a"}, {"content", "b"}}},
      {"/tokenize", {{"prompt", "a"}, {"add_special_tokens", 1}}},
      {"/tokenize", {{"prompt", "a"}, {"x", 1}}},
      {"/tokenize", {{"prompt", std::string((4 << 20) + 1, 'x')}}},
      {"/tokenize", {{"messages", Json::array()}}},
      {"/detokenize", Json::object()},
      {"/detokenize", {{"tokens", "a"}}},
      {"/detokenize", {{"tokens", {259}}}},
      {"/detokenize", {{"tokens", {-1}}}},
      {"/detokenize", {{"tokens", {1}}, {"x", 1}}}};
  for (const auto& [path, body] : wrong) {
    EXPECT_EQ(ask(path, body)->response.status, 400) << path << body.dump().substr(0, 100);
  }
}

TEST_F(AppTest, RendersCompletions) {
  start();
  const Json answer = ask("/v1/completions/render", {{"prompt", {"ab", "c"}}})->json();
  ASSERT_EQ(answer.size(), 2U);
  EXPECT_EQ(answer[0]["prompt"], "ab");
  EXPECT_EQ(answer[0]["token_ids"], (Json{'a', 'b'}));
  EXPECT_EQ(answer[1]["count"], 1);
}

TEST_F(AppTest, MetricsTellTheEnginesState) {
  start();
  chat("Hi");
  chat("Hi", {{"max_tokens", 2}});
  wait_until_idle();
  const Client client = get("/metrics");
  EXPECT_THAT(client->response.content_type, HasSubstr("version=0.0.4"));
  for (const char* line : {"backplane_requests_total{model=\"tiny\",finish_reason=\"stop\"} 1\n",
                           "backplane_requests_total{model=\"tiny\",finish_reason=\"length\"} 1\n",
                           "backplane_prompt_tokens_total{model=\"tiny\"} 42\n",
                           "backplane_generation_tokens_total{model=\"tiny\"} 21\n",
                           "backplane_time_to_first_token_seconds_count{model=\"tiny\"} 2\n",
                           "backplane_request_prompt_tokens_bucket{model=\"tiny\",le=\"32\"} 2\n",
                           "backplane_request_prompt_tokens_bucket{model=\"tiny\",le=\"+Inf\"} 2\n",
                           "backplane_requests_running{model=\"tiny\"} 0\n",
                           "backplane_kv_blocks{model=\"tiny\"} 299\n",
                           "# TYPE backplane_inter_token_latency_seconds histogram\n",
                           "vllm:num_requests_running{model_name=\"tiny\"} 0\n",
                           "vllm:num_requests_waiting{model_name=\"tiny\"} 0\n",
                           "vllm:lora_requests_info{model_name=\"tiny\",",
                           "vllm:kv_cache_usage_perc{model_name=\"tiny\"} 0\n",
                           "vllm:cache_config_info{model_name=\"tiny\",block_size=\"4\",num_gpu_"
                           "blocks=\"299\"} 1\n"}) {
    EXPECT_THAT(client->response.body, HasSubstr(line));
  }
}

}  // namespace
}  // namespace bp::server::testing
