#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "core/text/chat_template.hpp"

namespace bp::text {
namespace {

using nlohmann::ordered_json;

std::tm clock() {
  return parse_clock("2026-01-15T12:00:00").value();
}

std::string render(const ChatTemplate& chat, const ordered_json& request) {
  const auto result = chat.render(request, clock());
  return result.ok() ? *result : "error: " + result.status().message();
}

TEST(ChatTemplate, FillsInWhatARequestLeavesOut) {
  const auto chat = ChatTemplate::create(
      "{{ bos_token }}{{ eos_token }}{{ tools is none }}{{ add_generation_prompt }}{{ extra }}",
      {{"bos_token", "<s>"}});
  ASSERT_TRUE(chat.ok());
  EXPECT_EQ(render(*chat, ordered_json::object()), "<s>TrueFalse");
  EXPECT_EQ(render(*chat, {{"tools", ordered_json::array()},
                           {"add_generation_prompt", true},
                           {"extra", "!"},
                           {"bos_token", "B"}}),
            "BFalseTrue!");
}

TEST(ChatTemplate, ChoosesAmongNamedTemplates) {
  const auto chat =
      ChatTemplate::create({{"default", "plain"}, {"tool_use", "tools"}, {"rag", "r"}}, {});
  ASSERT_TRUE(chat.ok());
  EXPECT_EQ(render(*chat, ordered_json::object()), "plain");
  EXPECT_EQ(render(*chat, {{"tools", nullptr}}), "plain");
  EXPECT_EQ(render(*chat, {{"tools", ordered_json::array({1})}}), "tools");
  const auto only = ChatTemplate::create({{"odd", "one"}}, {});
  ASSERT_TRUE(only.ok());
  EXPECT_EQ(render(*only, ordered_json::object()), "one");
}

TEST(ChatTemplate, RefusesBadSources) {
  EXPECT_FALSE(ChatTemplate::create(std::vector<NamedTemplate>{}, {}).ok());
  EXPECT_FALSE(ChatTemplate::create({{"a", "x"}, {"b", "y"}}, {}).ok());
  EXPECT_FALSE(ChatTemplate::create({{"default", "x"}, {"default", "y"}}, {}).ok());
  const auto broken = ChatTemplate::create("\n{{", {});
  ASSERT_FALSE(broken.ok());
  EXPECT_EQ(broken.status().message(), "chat template 'default': line 2: the tag is not closed");
}

TEST(ChatTemplate, KnowsWhatItSpeaksOf) {
  const auto chat =
      ChatTemplate::create({{"default", "{{ xml_tools }}"}, {"tool_use", "{{ a }}"}}, {});
  ASSERT_TRUE(chat.ok());
  EXPECT_TRUE(chat->mentions("a"));
  EXPECT_TRUE(chat->mentions("xml_tools"));
  EXPECT_FALSE(chat->mentions("tools"));
}

TEST(ChatTemplate, KnowsHowItTakesTheArgumentsOfCalls) {
  const std::string calls = "{% for m in messages %}{% for c in m.tool_calls or [] %}";
  const std::string end = "{% endfor %}{% endfor %}";
  const std::pair<const char*, bool> cases[] = {
      {"{{ c.function.arguments | tojson }}", false},
      {"{% for k, v in c.function.arguments.items() %}{{ k }}={{ v }}{% endfor %}", false},
      {"{{ c.function.arguments if c.function.arguments is string else "
       "c.function.arguments | tojson }}",
       false},
      {"{{ 'f' + c.function.arguments }}", true},
      {"{{ c.function.arguments }}", true},
      {"{{ c.function.name }}", false},
      {"{% if c.function.arguments %}{{ raise_exception('no calls') }}{% endif %}", false},
  };
  for (const auto& [source, takes_text] : cases) {
    const auto chat = ChatTemplate::create(calls + source + end, {});
    ASSERT_TRUE(chat.ok()) << source;
    EXPECT_EQ(chat->message_form().argument_text, takes_text) << source;
  }
}

TEST(ChatTemplate, KnowsWhichContentShowsCalls) {
  const std::string begin = "{% for m in messages %}", end = "{% endfor %}";
  const std::string calls =
      "{% for c in m.tool_calls or [] %}{{ c.function.arguments }}{% endfor %}";
  const std::pair<std::string, bool> cases[] = {
      {calls, false},
      {"{% if m.content is not none %}{{ m.content }}{% endif %}" + calls, false},
      {"{% if 'a' in m.content %}a{% endif %}" + calls, false},
      {"{% if m.content is none %}" + calls + "{% endif %}", true},
      {"{% if m.content is none %}" + calls + "{% endif %}{{ developer }}", true},
      {"{{ m.content }}", false},
  };
  for (const auto& [source, takes_null] : cases) {
    const auto chat = ChatTemplate::create(begin + source + end, {});
    ASSERT_TRUE(chat.ok()) << source;
    EXPECT_EQ(chat->message_form().null_content, takes_null) << source;
    EXPECT_EQ(chat->message_form().argument_text, source.find("arguments") != std::string::npos);
    EXPECT_EQ(chat->message_form().developer_role, source.ends_with("{{ developer }}"));
  }
}

MessageForm form_of(const std::string& source) {
  const auto chat = ChatTemplate::create(source, {});
  EXPECT_TRUE(chat.ok()) << source;
  return chat.ok() ? chat->message_form() : MessageForm();
}

TEST(ChatTemplate, KnowsWhatStandsBesideACall) {
  const std::string all =
      "{% for m in messages %}{{ m.content }}{% for c in m.tool_calls or [] %}"
      "{{ c.function.arguments | tojson }}{% endfor %}";
  const std::string end = "{% endfor %}";
  EXPECT_FALSE(form_of(all + end).single_call);
  EXPECT_FALSE(form_of(all + end).joins_thought);
  EXPECT_TRUE(form_of("{% for m in messages %}{% if m.tool_calls %}"
                      "{{ m.tool_calls[0].function.arguments | tojson }}{% endif %}{% endfor %}")
                  .single_call);
  EXPECT_TRUE(form_of("{% for m in messages %}{% if m.tool_calls|length > 1 %}"
                      "{{ raise_exception('one') }}{% endif %}{% endfor %}" +
                      all + end)
                  .single_call);
  EXPECT_TRUE(form_of(all +
                      "{% if m.content and m.thinking %}{{ raise_exception('both') }}"
                      "{% endif %}" +
                      end)
                  .joins_thought);
}

TEST(ChatTemplate, KnowsWhetherThereIsASystem) {
  const std::string begin = "{% for m in messages %}", end = "{{ m.content }}{% endfor %}";
  EXPECT_TRUE(form_of(begin + end).system_role);
  EXPECT_FALSE(
      form_of(begin + "{% if m.role == 'system' %}{{ raise_exception('no') }}{% endif %}" + end)
          .system_role);
  EXPECT_FALSE(form_of("{% for m in messages if m.role != 'system' %}" + end).system_role);
  EXPECT_TRUE(form_of("{{ raise_exception('never') }}").system_role);
}

TEST(ChatTemplate, RequestsAreObjects) {
  const auto chat = ChatTemplate::create("x", {});
  ASSERT_TRUE(chat.ok());
  EXPECT_EQ(chat->render(ordered_json::array(), clock()).status().code(), Code::kInvalidArgument);
}

TEST(ChatTemplate, RendersOnManyThreadsAtOnce) {
  const auto chat = ChatTemplate::create(
      "{% for m in messages %}{% set l = [m.role] %}{{ l[0] ~ ':' ~ m.content|upper }}{% endfor %}",
      {});
  ASSERT_TRUE(chat.ok());
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&chat, t] {
      const std::string text = "t" + std::to_string(t);
      const ordered_json request = {
          {"messages", ordered_json::array({{{"role", "user"}, {"content", text}}})}};
      for (int i = 0; i < 200; ++i) EXPECT_EQ(render(*chat, request), "user:T" + text.substr(1));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Clock, ParsesDatesAndTimes) {
  const auto time = parse_clock("2024-02-29T23:59:58");
  ASSERT_TRUE(time.ok());
  EXPECT_EQ(time->tm_year, 124);
  EXPECT_EQ(time->tm_mon, 1);
  EXPECT_EQ(time->tm_mday, 29);
  EXPECT_EQ(time->tm_hour, 23);
  EXPECT_EQ(time->tm_sec, 58);
  EXPECT_EQ(time->tm_wday, 4);
  EXPECT_TRUE(parse_clock("2026-01-15").ok());
  for (const char* bad : {"", "today", "2026-13-01", "2026-02-30", "2026-01-15T25:00:00",
                          "2026-01-15T12:00", "2026-01-15T12:00:00Z", "2026-01-15T"}) {
    EXPECT_FALSE(parse_clock(bad).ok()) << bad;
  }
}

TEST(Clock, IsTakenOutOfTheRequest) {
  ordered_json request = {{"now", "2026-01-15T12:00:00"}, {"messages", ordered_json::array()}};
  const auto fixed = take_clock(request);
  ASSERT_TRUE(fixed.ok());
  EXPECT_EQ(fixed->tm_mday, 15);
  EXPECT_FALSE(request.contains("now"));
  EXPECT_TRUE(take_clock(request).ok());
  request["now"] = 5;
  EXPECT_FALSE(take_clock(request).ok());
}

}  // namespace
}  // namespace bp::text
