// Tools offered, calls and reasoning in answers, and both in the messages that follow.

#include <set>

#include "core/engine/stats.hpp"
#include "fixture.hpp"

namespace bp::server::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;

constexpr char kHermesTemplate[] =
    "{% for t in tools or [] %}{{ t | tojson }}\n<tool_call>{% endfor %}"
    "{% for m in messages %}<|start|>{{ m.role }}\n{{ m.content or '' }}"
    "{% if m.reasoning_content %}({{ m.reasoning_content }}){% endif %}"
    "{% for c in m.tool_calls or [] %}{{ c.function.name }} {{ c.function.arguments | tojson }}"
    "{% endfor %}{% if m.role == 'tool' %}[{{ m.name }}]{% endif %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|start|>assistant\n"
    "{% if enable_thinking %}<think>\n{% endif %}{% endif %}";

const Json kWeather = {
    {"type", "function"},
    {"function",
     {{"name", "get_weather"},
      {"description", "Weather of a city."},
      {"parameters", {{"type", "object"}, {"properties", {{"city", {{"type", "string"}}}}}}}}}};
const Json kTools = Json::array({kWeather});
const Json kMessages = Json::array({{{"role", "user"}, {"content", "Hi"}}});

const Json kBareCall = {{"function", {{"name", "f"}, {"arguments", "{}"}}}};

constexpr char kCall[] =
    "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": "
    "\"R\xC3\xA5\"}}\n</tool_call>";
constexpr char kArguments[] = "{\"city\": \"R\xC3\xA5\"}";

class ToolCallTest : public ServerTest {
 protected:
  ToolCallTest() {
    limits.context = 1024;
    template_source = kHermesTemplate;
  }
  void answer(std::string text) {
    reply = std::move(text);
    start();
  }
  Json ask_message(const Json& more) { return chat("Hi", more)->json()["choices"][0]; }
  std::string rendered(const Json& messages, Json more = Json::object()) {
    more["messages"] = messages;
    return ask("/v1/chat/completions/render", more)->json().value("prompt", "");
  }
};

TEST_F(ToolCallTest, Whole) {
  answer(std::string("So. \n") + kCall + "\n" + kCall);
  const Json choice = ask_message({{"tools", kTools}});
  EXPECT_EQ(choice["finish_reason"], "tool_calls");
  const Json& message = choice["message"];
  EXPECT_EQ(message["content"], "So.");
  EXPECT_FALSE(message.contains("reasoning_content"));
  ASSERT_EQ(message["tool_calls"].size(), 2U);
  std::set<std::string> ids;
  for (const Json& call : message["tool_calls"]) {
    EXPECT_THAT(call["id"].get<std::string>(), MatchesRegex("call_[0-9A-Za-z]+"));
    ids.insert(call["id"].get<std::string>());
    EXPECT_EQ(call["type"], "function");
    EXPECT_EQ(call["function"], (Json{{"name", "get_weather"}, {"arguments", kArguments}}));
  }
  EXPECT_EQ(ids.size(), 2U);
}

TEST_F(ToolCallTest, ContentIsNullBesideCallsOnly) {
  answer(kCall);
  EXPECT_TRUE(ask_message({{"tools", kTools}})["message"]["content"].is_null());
}

TEST_F(ToolCallTest, Streams) {
  answer(std::string("<think>hm</think>So.\n") + kCall + kCall);
  const auto events =
      chat("Hi", {{"tools", kTools}, {"stream", true}, {"n", 2}, {"logprobs", true}})->events();
  for (int index = 0; index < 2; ++index) {
    std::string content, reasoning;
    std::vector<Json> calls;
    size_t n_logprobs = 0;
    Json finish;
    for (const Json& event : events) {
      const Json& choice = event["choices"][0];
      if (choice["index"] != index) continue;
      const Json& delta = choice["delta"];
      content += delta.value("content", "");
      reasoning += delta.value("reasoning_content", "");
      if (!choice["logprobs"].is_null()) n_logprobs += choice["logprobs"]["content"].size();
      if (!choice["finish_reason"].is_null()) finish = choice["finish_reason"];
      for (const Json& call : delta.value("tool_calls", Json::array())) {
        if (call["index"] == calls.size()) {
          EXPECT_TRUE(call.contains("id"));
          EXPECT_EQ(call["type"], "function");
          calls.push_back(call["function"]);
        } else {
          EXPECT_EQ(call.size(), 2U);
          EXPECT_EQ(call["index"], calls.size() - 1);
          EXPECT_EQ(call["function"].size(), 1U);
          calls.back()["arguments"] = calls.back()["arguments"].get<std::string>() +
                                      call["function"]["arguments"].get<std::string>();
        }
      }
    }
    EXPECT_EQ(content, "So.");
    EXPECT_EQ(reasoning, "hm");
    const Json call = {{"name", "get_weather"}, {"arguments", kArguments}};
    EXPECT_EQ(calls, (std::vector<Json>{call, call}));
    EXPECT_EQ(finish, "tool_calls");
    EXPECT_EQ(n_logprobs, reply.size() + 1);  // each byte is a token, and the end
  }
}

TEST_F(ToolCallTest, OneCallOnly) {
  answer(std::string(kCall) + kCall + std::string(400, 'x'));
  model.delay_us = 2000;  // time to stop it
  for (const bool stream : {false, true}) {
    const Client client = chat("Hi", {{"tools", kTools},
                                      {"parallel_tool_calls", false},
                                      {"stream", stream},
                                      {"return_token_ids", true},
                                      {"n", 2}});
    if (stream) {
      const auto events = client->events();
      EXPECT_EQ(events.back()["choices"][0]["finish_reason"], "tool_calls");
      for (const Json& event : events) {
        for (const Json& call : event["choices"][0]["delta"].value("tool_calls", Json::array())) {
          EXPECT_EQ(call["index"], 0);
        }
      }
    } else {
      const Json whole = client->json();
      for (const Json& choice : whole["choices"]) {
        EXPECT_EQ(choice["finish_reason"], "tool_calls");
        EXPECT_EQ(choice["message"]["tool_calls"].size(), 1U);
        EXPECT_TRUE(choice["message"]["content"].is_null());
      }
      // The rest of the answer is not waited for, and what came of it meanwhile not counted.
      size_t n_tokens = 0;
      for (const Json& choice : whole["choices"]) n_tokens += choice["token_ids"].size();
      EXPECT_LT(n_tokens, reply.size());
      EXPECT_EQ(whole["usage"]["completion_tokens"].get<size_t>(), n_tokens);
    }
  }
  wait_until_idle();
}

TEST_F(ToolCallTest, WithoutToolsCallsAreContent) {
  answer(std::string("<think>hm</think>\n\n") + kCall);
  for (const Json& more : {Json::object(), Json{{"tools", Json::array()}},
                           Json{{"tools", kTools}, {"tool_choice", "none"}}}) {
    const Json choice = ask_message(more);
    EXPECT_EQ(choice["message"]["content"], kCall);
    EXPECT_EQ(choice["message"]["reasoning_content"], "hm");
    EXPECT_EQ(choice["finish_reason"], "stop");
  }
}

TEST_F(ToolCallTest, ThePromptMayOpenTheReasoning) {
  // The script counts the tokens of "<think>\n" as its first ones.
  answer("........hm\n</think>\n\nYes.");
  const Json message =
      ask_message({{"chat_template_kwargs", {{"enable_thinking", true}}}})["message"];
  EXPECT_EQ(message["reasoning_content"], "hm");
  EXPECT_EQ(message["content"], "Yes.");
  EXPECT_EQ(ask_message(Json::object())["message"]["content"], reply);
}

TEST_F(ToolCallTest, CutByTheLimit) {
  answer(kCall);
  const Json choice = ask_message({{"tools", kTools}, {"max_tokens", 56}});
  EXPECT_EQ(choice["finish_reason"], "length");
  const Json& call = choice["message"]["tool_calls"][0]["function"];
  EXPECT_EQ(call["name"], "get_weather");
  EXPECT_THAT(kArguments, ::testing::StartsWith(call["arguments"].get<std::string>()));
}

TEST_F(ToolCallTest, MarksThatAreControlTokens) {
  control_tokens = {"[TOOL_CALLS]", "[ARGS]", "[HIDDEN]"};
  template_source = std::string("{# [TOOL_CALLS] #}") + kHermesTemplate;
  answer("[HIDDEN]So.[TOOL_CALLS]get_weather[ARGS]{\"city\": \"Rome\"}[HIDDEN]");
  const Json choice = ask_message({{"tools", kTools}, {"add_generation_prompt", true}});
  ASSERT_EQ(choice["message"]["content"], "So.") << choice;
  const Json& call = choice["message"]["tool_calls"][0];
  EXPECT_THAT(call["id"].get<std::string>(), MatchesRegex("[0-9A-Za-z]+"));
  EXPECT_EQ(call["id"].get<std::string>().size(), 9U);
  EXPECT_EQ(call["function"]["arguments"], "{\"city\": \"Rome\"}");
}

TEST_F(ToolCallTest, EscapedTexts) {
  control_tokens = {"<start_function_call>", "<end_function_call>", "<escape>"};
  template_source = std::string("{# <start_function_call> #}") + kHermesTemplate;
  answer(
      "<start_function_call>call:get_weather{city:<escape>Rome, \"Italy\"<escape>,days:[1,2]}"
      "<end_function_call>");
  const Json expected = {{"name", "get_weather"},
                         {"arguments", R"({"city": "Rome, \"Italy\"", "days": [1, 2]})"}};
  const Json choice = ask_message({{"tools", kTools}});
  EXPECT_EQ(choice["finish_reason"], "tool_calls");
  ASSERT_TRUE(choice["message"].contains("tool_calls")) << choice;
  EXPECT_TRUE(choice["message"]["content"].is_null());
  EXPECT_EQ(choice["message"]["tool_calls"][0]["function"], expected);

  Json streamed = {{"name", ""}, {"arguments", ""}};
  for (const Json& event : chat("Hi", {{"tools", kTools}, {"stream", true}})->events()) {
    const Json& delta = event["choices"][0]["delta"];
    EXPECT_EQ(delta.value("content", ""), "");
    for (const Json& call : delta.value("tool_calls", Json::array())) {
      for (const auto& [key, text] : call["function"].items()) {
        streamed[key] = streamed[key].get<std::string>() + text.get<std::string>();
      }
    }
  }
  EXPECT_EQ(streamed, expected);
}

// Arguments between tags are what the schema says: a text, or JSON where it allows none.
TEST_F(ToolCallTest, TaggedArgumentsByTheSchema) {
  answer(
      "<tool_call>\n<function=find>\n<parameter=id>\n12345\n</parameter>\n</function>\n"
      "</tool_call>");
  tiny->chat_output = text::chat::find_dialect("qwen3-coder");
  const Json text = {{"type", "string"}};
  const Json number = {{"type", "integer"}};
  const Json null = {{"type", "null"}};
  const auto reference = [](const char* to) { return Json{{"$ref", to}}; };
  const Json defs = {
      {"Id", text},
      {"Number", number},
      {"a/b c~", text},
      {"Maybe", {{"anyOf", Json::array({reference("#/$defs/Id"), null})}}},
      {"Circle", {{"anyOf", Json::array({reference("#/$defs/Circle"), number})}}},
      {"Circles",
       {{"allOf", Json::array({reference("#/$defs/Circles"), reference("#/$defs/Circles")})}}}};
  const std::pair<Json, bool> cases[] = {
      {text, true},
      {{{"type", {"string", "null"}}}, true},
      {{{"type", {"string", "integer"}}}, true},
      {{{"anyOf", Json::array({text, null})}}, true},
      {{{"anyOf", Json::array({number, text})}}, true},
      {{{"oneOf", Json::array({null, text})}}, true},
      {{{"allOf", Json::array({text, Json{{"minLength", 1}}})}}, true},
      {{{"allOf", Json::array({reference("#/$defs/Maybe")})}, {"default", nullptr}}, true},
      {reference("#/$defs/Id"), true},
      {reference("#/$defs/Maybe/anyOf/0"), true},
      {reference("#/$defs/a~1b%20c~0"), true},
      {{{"enum", {"12345", "6"}}}, true},
      {{{"enum", {"12345", nullptr}}}, true},
      {{{"const", "12345"}}, true},
      {number, false},
      {Json::object(), false},
      {true, false},
      {{{"anyOf", Json::array({number, null})}}, false},
      {{{"type", "integer"}, {"anyOf", Json::array({text})}}, false},
      {{{"anyOf", text}}, false},
      {{{"enum", {12345, "6"}}}, false},
      {{{"enum", Json::array({nullptr})}}, false},
      {{{"enum", "12345"}}, false},
      {{{"const", 12345}}, false},
      {reference("#/$defs/Number"), false},
      {reference("#/$defs/Circle"), false},
      {reference("#/$defs/Circles"), false},
      {reference("#/$defs/None"), false},
      {reference("#/$defs/Maybe/anyOf/2"), false},
      {reference("#/$defs/Maybe/anyOf/-"), false},
      {reference("#$defs"), false},
      {reference("https://example.org/id"), false},
      {{{"$ref", 1}}, false},
  };
  for (const auto& [schema, is_text] : cases) {
    // A parameter that goes around in circles takes nothing from those behind it.
    const Json parameters = {
        {"properties", {{"round", reference("#/$defs/Circles")}, {"id", schema}}}, {"$defs", defs}};
    const Json tool = {{"type", "function"},
                       {"function", {{"name", "find"}, {"parameters", parameters}}}};
    const Json message = ask_message({{"tools", Json::array({tool})}})["message"];
    ASSERT_EQ(message["tool_calls"].size(), 1U) << schema << message;
    EXPECT_EQ(message["tool_calls"][0]["function"]["arguments"],
              is_text ? "{\"id\": \"12345\"}" : "{\"id\": 12345}")
        << schema;
  }
}

TEST_F(ToolCallTest, IdsThatCountTheConversationsCalls) {
  template_source = std::string("{# <|tool_call_argument_begin|> #}") + kHermesTemplate;
  answer("<|tool_call_begin|>functions.get_weather:1<|tool_call_argument_begin|>{}");
  const Json call = {{"id", "functions.get_weather:0"},
                     {"index", 0},
                     {"function", {{"name", "get_weather"}, {"arguments", "{}"}}}};
  const Json messages =
      Json::array({{{"role", "assistant"}, {"content", ""}, {"tool_calls", Json::array({call})}},
                   {{"role", "user"}, {"content", "And now?"}}});
  const Json message = ask_message({{"tools", kTools}, {"messages", messages}})["message"];
  EXPECT_EQ(message["tool_calls"][0]["id"], "functions.get_weather:1");
}

TEST_F(ToolCallTest, Channels) {
  control_tokens = {"<|channel|>", "<|message|>", "<|end|>", "<|call|>"};
  template_source = std::string("{# <|channel|> #}") + kHermesTemplate;
  answer(
      "<|channel|>analysis<|message|>hm<|end|><|channel|>commentary to=functions.get_weather json"
      "<|message|>{\"city\": \"Rome\"}<|call|>");
  const Json message = ask_message({{"tools", kTools}})["message"];
  EXPECT_EQ(message["reasoning_content"], "hm");
  EXPECT_TRUE(message["content"].is_null());
  EXPECT_EQ(message["tool_calls"][0]["function"],
            (Json{{"name", "get_weather"}, {"arguments", "{\"city\": \"Rome\"}"}}));
}

TEST_F(ToolCallTest, MessagesWithCallsAndReasoning) {
  start();
  const Json call = {{"id", "call_1"},
                     {"type", "function"},
                     {"function", {{"name", "get_weather"}, {"arguments", "{\"city\":\"Rome\"}"}}}};
  const Json messages =
      Json::array({{{"role", "user"}, {"content", "Hi"}},
                   {{"role", "assistant"},
                    {"content", nullptr},
                    {"reasoning", "hm"},
                    {"tool_calls", Json::array({call})}},
                   {{"role", "tool"}, {"tool_call_id", "call_1"}, {"content", "sunny"}}});
  const std::string text = rendered(messages, {{"tools", kTools}});
  EXPECT_THAT(text, HasSubstr("\"description\": \"Weather of a city.\""));
  EXPECT_THAT(text, HasSubstr("(hm)get_weather {\"city\": \"Rome\"}<|im_end|>"));
  EXPECT_THAT(text, HasSubstr("sunny[get_weather]<|im_end|>"));
  const Json tokenized = ask("/tokenize", {{"messages", messages}, {"tools", kTools}})->json();
  EXPECT_GT(tokenized["count"], ask("/tokenize", {{"messages", messages}})->json()["count"]);
}

TEST_F(ToolCallTest, TemplatesThatJoinArgumentsGetText) {
  template_source =
      "{% for m in messages %}{% for c in m.tool_calls or [] %}"
      "{{ c['function']['name'] + c['function']['arguments'] }}{% endfor %}{% endfor %}";
  start();
  for (const Json& arguments : {Json("{\"a\": 1}"), Json{{"a", 1}}}) {
    const Json call = {{"function", {{"name", "f"}, {"arguments", arguments}}}};
    const std::string text =
        rendered(Json::array({{{"role", "assistant"}, {"tool_calls", {call}}}}));
    EXPECT_EQ(Json::parse(text.substr(1)), (Json{{"a", 1}}));
  }
}

// Answers of ours that only call have none, and so they come back.
TEST_F(ToolCallTest, MessagesWithoutContentHaveAnEmptyOne) {
  template_source =
      "{% for m in messages %}{{ 'x' in m.content }} {{ m.content.strip() }}"
      "{% for c in m.tool_calls or [] %}{{ c.function.arguments }}{% endfor %}{% endfor %}";
  start();
  EXPECT_EQ(rendered(Json::array({{{"role", "assistant"}, {"content", nullptr}},
                                  {{"role", "assistant"}, {"tool_calls", {kBareCall}}}})),
            "False False {}");
}

TEST_F(ToolCallTest, OrNoneWhereTheTemplateShowsCallsForNothingElse) {
  template_source =
      "{% for m in messages %}{% if m.content is none %}"
      "{% for c in m.tool_calls %}{{ 'f' + c.function.arguments }}{% endfor %}"
      "{% else %}({{ m.content }}){% endif %}{% endfor %}";
  start();
  EXPECT_EQ(
      rendered(Json::array({{{"role", "assistant"}, {"content", nullptr}},
                            {{"role", "assistant"}, {"content", ""}, {"tool_calls", {kBareCall}}},
                            {{"role", "assistant"}, {"tool_calls", {kBareCall}}}})),
      "()f{}f{}");
}

TEST_F(ToolCallTest, DevelopersSpeakAsTheSystemWhereTheTemplateDoesNotKnowThem) {
  template_source = "{% for m in messages %}{{ m.role }}: {{ m.content }} {% endfor %}";
  start();
  const Json messages = Json::array({{{"role", "developer"}, {"content", "a"}}});
  EXPECT_EQ(rendered(messages), "system: a ");
  template_source += "{# developer #}";
  start();
  EXPECT_EQ(rendered(messages), "developer: a ");
}

TEST_F(ToolCallTest, TemplatesWithoutASystemHearItFromTheUser) {
  template_source =
      "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no') }}{% endif %}"
      "{{ m.role }}: {{ m.content }}|{% endfor %}";
  start();
  const Json system = {{"role", "system"}, {"content", "a"}};
  const Json user = {{"role", "user"}, {"content", "b"}};
  EXPECT_EQ(rendered(Json::array({system, user, user})), "user: a\n\nb|user: b|");
  EXPECT_EQ(rendered(Json::array({user, system, system})), "user: b|user: a\n\na|");
  const Json silent = {{"role", "system"}, {"content", ""}};
  EXPECT_EQ(rendered(Json::array({silent, user})), "user: b|");
  EXPECT_EQ(rendered(Json::array({silent})), "user: |");
  const Json without_parts = {{"role", "developer"}, {"content", Json::array()}};
  EXPECT_EQ(rendered(Json::array({without_parts, silent})), "user: |");
  tiny->chat_system = "c";
  EXPECT_EQ(rendered(Json::array({user})), "user: c\n\nb|");
}

TEST_F(ToolCallTest, ReasoningGoesBeforeTextWhereTheTemplateTakesOne) {
  template_source =
      "{% for m in messages %}{% if m.content and m.thinking %}{{ raise_exception('both') }}"
      "{% endif %}({{ m.thinking }}){{ m.content }}{% for c in m.tool_calls or [] %}"
      "{{ c.function.arguments | tojson }}{% endfor %}{% endfor %}";
  start();
  const Json message = {{"role", "assistant"},
                        {"reasoning_content", "hm"},
                        {"content", "I look."},
                        {"tool_calls", {kBareCall}}};
  EXPECT_EQ(rendered(Json::array({message})), "(hm\n\nI look.){}");
}

TEST_F(ToolCallTest, ATemplateThatShowsOneCallGetsOne) {
  answer(std::string(kCall) + kCall);
  EXPECT_EQ(ask_message({{"tools", kTools}})["message"]["tool_calls"].size(), 2U);
  const std::string all = "m.tool_calls or []";
  template_source.replace(template_source.find(all), all.size(), "(" + all + ")[:1]");
  answer(std::string(kCall) + kCall);
  const Json choice = ask_message({{"tools", kTools}});
  ASSERT_TRUE(choice["message"].contains("tool_calls")) << choice;
  EXPECT_EQ(choice["message"]["tool_calls"].size(), 1U) << choice;
  EXPECT_EQ(choice["finish_reason"], "tool_calls");
}

TEST_F(ToolCallTest, ReasoningEffortIsAVariableOfTemplatesThatKnowIt) {
  start();
  EXPECT_EQ(chat("Hi", {{"reasoning_effort", "low"}})->json()["error"]["param"],
            "reasoning_effort");
  template_source = "{{ reasoning_effort }}{{ messages[0].content }}";
  start();
  EXPECT_EQ(rendered(kMessages, {{"reasoning_effort", "low"}}), "lowHi");
  const Json kwargs = {{"reasoning_effort", "high"}};
  EXPECT_EQ(chat("Hi", {{"reasoning_effort", "low"}, {"chat_template_kwargs", kwargs}})
                ->json()["error"]["param"],
            "chat_template_kwargs");
}

TEST_F(ToolCallTest, HintsOfOtherServersChangeNothing) {
  template_source = "{% for m in messages %}{{ m.content }}{% endfor %}";
  start();
  const Json part = {{"type", "text"}, {"text", "a"}, {"cache_control", {{"type", "ephemeral"}}}};
  const Json messages =
      Json::array({{{"role", "user"}, {"content", Json::array({part})}},
                   {{"role", "assistant"}, {"content", "b"}, {"annotations", Json::array()}}});
  EXPECT_EQ(
      rendered(messages,
               {{"safety_identifier", "me"}, {"prompt_cache_key", "k"}, {"verbosity", "medium"}}),
      "ab");
  const Json annotated = {{"role", "assistant"}, {"content", "b"}, {"annotations", {1}}};
  EXPECT_EQ(ask("/v1/chat/completions/render", {{"messages", Json::array({annotated})}})
                ->json()["error"]["param"],
            "messages[0].annotations");
}

TEST_F(ToolCallTest, Refusals) {
  start();
  const auto function = [](Json fields) {
    Json changed = kWeather["function"];
    changed.update(fields);
    return Json{{"tools", Json::array({{{"type", "function"}, {"function", changed}}})}};
  };
  const std::pair<Json, const char*> cases[] = {
      {{{"tools", 1}}, "tools"},
      {{{"tools", Json::array({1})}}, "tools[0]"},
      {{{"tools", Json::array({{{"type", "function"}}})}}, "tools[0].function"},
      {{{"tools", Json::array({{{"type", "retrieval"}}})}}, "tools[0].type"},
      {{{"tools", Json::array({kWeather, kWeather})}}, "tools[1].function.name"},
      {{{"tools", Json(129, kWeather)}}, "tools"},
      {function({{"name", "a b"}}), "tools[0].function.name"},
      {function({{"name", ""}}), "tools[0].function.name"},
      {function({{"name", std::string(65, 'a')}}), "tools[0].function.name"},
      {function({{"name", nullptr}}), "tools[0].function.name"},
      {function({{"description", 1}}), "tools[0].function.description"},
      {function({{"parameters", "{}"}}), "tools[0].function.parameters"},
      {function({{"strict", true}}), "tools[0].function.strict"},
      {function({{"other", 1}}), "tools[0].function.other"},
      {{{"tools", kTools}, {"tool_choice", "required"}}, "tool_choice"},
      {{{"tools", kTools}, {"tool_choice", "always"}}, "tool_choice"},
      {{{"tools", kTools},
        {"tool_choice", {{"type", "function"}, {"function", {{"name", "get_weather"}}}}}},
       "tool_choice"},
      {{{"parallel_tool_calls", "no"}}, "parallel_tool_calls"},
      {{{"messages",
         Json::array({{{"role", "assistant"},
                       {"tool_calls", Json::array({{{"index", 1}, {"function", {}}}})}}})}},
       "messages[0].tool_calls[0].index"},
      {{{"messages", Json::array({{{"role", "user"},
                                   {"content", "a"},
                                   {"tool_calls", Json::array({{{"function", {}}}})}}})}},
       "messages[0].tool_calls"},
      {{{"messages",
         Json::array(
             {{{"role", "assistant"}, {"content", "a"}, {"reasoning", "b"}, {"thinking", "c"}}})}},
       "messages[0].thinking"},
  };
  for (const auto& [more, param] : cases) {
    const Client client = chat("Hi", more);
    EXPECT_EQ(client->response.status, 400) << more;
    EXPECT_EQ(client->json()["error"]["param"], param) << client->response.body;
  }
}

TEST_F(ToolCallTest, RefusedWhereTheyWouldBeIgnored) {
  template_source = "{% for m in messages %}{{ m.content }}{% endfor %}<tool_call>";
  start();
  EXPECT_EQ(chat("Hi", {{"tools", kTools}})->json()["error"]["param"], "tools");
}

TEST_F(ToolCallTest, ConfiguredDialect) {
  answer("[get_weather(city='Rome')]");
  tiny->chat_output = text::chat::find_dialect("llama3");
  EXPECT_EQ(ask_message({{"tools", kTools}})["finish_reason"], "tool_calls");
  tiny->chat_output = text::chat::find_dialect("none");
  EXPECT_EQ(ask_message(Json::object())["message"]["content"], reply);
  EXPECT_EQ(chat("Hi", {{"tools", kTools}})->json()["error"]["param"], "tools");
}

}  // namespace
}  // namespace bp::server::testing
