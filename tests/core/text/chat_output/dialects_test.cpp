// What each family writes, read back.

#include "reading.hpp"

namespace bp::text::chat::testing {
namespace {

struct Case {
  const char* dialect;
  std::string text;
  Message message;
  std::string lead = {};
};

const std::string kParis = R"({"city": "Paris"})";
const std::string kUtc = R"({"zone": "UTC"})";

std::vector<Case> cases() {
  const Call paris{"get_weather", kParis};
  const Call utc{"get_time", kUtc};
  return {
      {"none", "<think>a</think> <tool_call>{}", {"<think>a</think> <tool_call>{}"}},
      {"think", "<think>\nhm\n</think>\n\nYes.", {"Yes.", "hm"}},
      {"think", "</think> is a tag", {"</think> is a tag"}},
      {"think", "hm, <b>so</b>\n</think>\n\nYes.", {"Yes.", "hm, <b>so</b>"}, "<think>"},
      {"think", "re.sub(\"<think>.*</think>\")", {"re.sub(\"<think>.*</think>\")"}},
      {"think", "<think>hm</think>\nA <think> begins.", {"A <think> begins.", "hm"}},
      {"think", " \n<think>hm</think>Yes.", {"Yes.", "hm"}},

      {"hermes",
       "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": "
       "\"Paris\"}}\n</tool_call>",
       {"", "", {paris}}},
      {"hermes",
       "<think>\nwhich?\n</think>\n\nLet me look.\n<tool_call>\n{\"name\": \"get_weather\", "
       "\"arguments\": {\"city\": \"Paris\"}}\n</tool_call>\n<tool_call>\n{\"arguments\": "
       "{\"zone\": "
       "\"UTC\"}, \"name\": \"get_time\"}\n</tool_call>",
       {"Let me look.", "which?", {paris, utc}}},
      {"hermes", "<tool_call>{\"name\": \"get_time\"}</tool_call>", {"", "", {{"get_time", "{}"}}}},
      {"hermes",
       R"(<tool_call>{"type": "function", "function": {"name": "get_time", "arguments": null}})",
       {"", "", {{"get_time", "{}"}}}},
      {"hermes",
       R"(<tool_call>{"name": "get_time", "arguments": "{\"zone\": \"UTC\"}"}</tool_call>)",
       {"", "", {utc}}},
      {"hermes",
       "<tool_call>[{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris\"}}, "
       "{\"name\": "
       "\"get_time\", \"arguments\": {\"zone\": \"UTC\"}}]</tool_call> Done.",
       {"Done.", "", {paris, utc}}},
      {"hermes",
       R"(<tool_call>{"name": "get_weather", "arguments": {"city": "}]</\"{", "days": [1, {"a": -2e3}]}}</tool_call>)",
       {"", "", {{"get_weather", R"({"city": "}]</\"{", "days": [1, {"a": -2e3}]})"}}}},

      {"qwen3-coder",
       "I look.\n<tool_call>\n<function=get_weather>\n<parameter=city>\nNew "
       "\"York\"\n</parameter>\n"
       "<parameter=days>\n3\n</parameter>\n<parameter=units>\n[\"C\"]\n</parameter>\n</"
       "function>\n"
       "</tool_call>",
       {"I look.",
        "",
        {{"get_weather", R"({"city": "New \"York\"", "days": 3, "units": ["C"]})"}}}},
      {"qwen3-coder",
       "<function=get_time>\n<parameter=zone>\n42\n</parameter>\n</function>\n<tool_call>\n"
       "<function=other>\n</function>\n</tool_call>",
       {"", "", {{"get_time", R"({"zone": "42"})"}, {"other", "{}"}}}},
      {"qwen3-coder",
       "<tool_call>\n<function=f>\n<parameter=code>\n  if a:\n    "
       "b()\n</parameter>\n<parameter=x>\n"
       "True\n</parameter></function></tool_call>",
       {"", "", {{"f", "{\"code\": \"  if a:\\n    b()\", \"x\": true}"}}}},

      {"glm",
       "hm</think>Wait.\n<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Paris</"
       "arg_value>\n"
       "<arg_key>days</arg_key><arg_value>2</arg_value></tool_call><tool_call>get_time</tool_call>",
       {"Wait.", "hm", {{"get_weather", R"({"city": "Paris", "days": 2})"}, {"get_time", "{}"}}},
       "<think>"},
      {"glm4", "get_weather\n{\"city\": \"Paris\"}", {"", "", {paris}}},
      {"glm4",
       "\nget_weather\n{\"city\": \"Paris\"}\n<|assistant|>get_time\n{\"zone\": \"UTC\"}",
       {"", "", {paris, utc}}},
      {"glm4", "<think>\nhm\n</think>\nget_time\n{\"zone\": \"UTC\"}", {"", "hm", {utc}}},
      {"glm4", "get_weather is what I would call.", {"get_weather is what I would call."}},
      {"ernie",
       "hm\n</think>\n\n\n<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": "
       "\"Paris\"}}\n</tool_call>\n",
       {"", "hm", {paris}},
       "<think>\n"},
      {"ernie", "hm\n</think>\n\n<response>\nYes.\n</response>\n", {"Yes.", "hm"}, "<think>\n"},
      {"minimax",
       "<minimax:tool_call>\n<invoke name=\"get_time\">\n<parameter name=\"zone\">UTC</parameter>\n"
       "</invoke>\n<invoke name=\"get_time\">\n</invoke>\n</minimax:tool_call>",
       {"", "", {utc, {"get_time", "{}"}}}},

      {"llama3", R"({"name": "get_weather", "parameters": {"city": "Paris"}})", {"", "", {paris}}},
      {"llama3",
       R"(<|python_tag|>{"type": "function", "name": "get_weather", "parameters": {"city": "Paris"}}; {"name": "get_time", "parameters": {"zone": "UTC"}})",
       {"", "", {paris, utc}}},
      {"llama3", "[get_weather(city=\"Paris\"), get_time(\"UTC\")]", {"", "", {paris, utc}}},
      {"llama3",
       R"({"name": "Anna", "parameters": {}})",
       {R"({"name": "Anna", "parameters": {}})"}},
      {"llama3", R"({"city": "Paris"})", {R"({"city": "Paris"})"}},
      {"llama3", "[1, 2, 3]", {"[1, 2, 3]"}},
      {"llama3",
       R"(So: {"name": "get_time", "parameters": {}})",
       {R"(So: {"name": "get_time", "parameters": {}})"}},
      {"llama3", "<|python_tag|>get_time.call(zone=\"UTC\")", {"", "", {utc}}},
      {"llama3", "<|python_tag|>import os", {"<|python_tag|>import os"}},

      {"mistral",
       R"([TOOL_CALLS][{"name": "get_weather", "arguments": {"city": "Paris"}}, {"name": "get_time", "arguments": {"zone": "UTC"}, "id": "a1b2c3d4e"}])",
       {"", "", {paris, utc}}},
      {"mistral",
       R"([THINK]hm[/THINK]So.[TOOL_CALLS]get_weather[ARGS]{"city": "Paris"}[TOOL_CALLS]get_time[CALL_ID]a1b2c3d4e[ARGS]{"zone": "UTC"})",
       {"So.", "hm", {paris, utc}}},
      {"mistral", R"([TOOL_CALLS] get_time {"zone": "UTC"})", {"", "", {utc}}},

      {"deepseek-v3",
       "<think>\nhm\n</think>\n\n<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>"
       "get_weather\n```json\n{\"city\": \"Paris\"}\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>"
       "function<｜tool▁sep｜>get_time\n```json\n{\"zone\": \"UTC\"}\n```<｜tool▁call▁end｜>"
       "<｜tool▁calls▁end｜>",
       {"", "hm", {paris, utc}}},
      {"deepseek-v3.2",
       "<think>hm</think>I look.\n\n<｜DSML｜function_calls>\n<｜DSML｜invoke "
       "name=\"get_weather\">\n"
       "<｜DSML｜parameter name=\"city\" string=\"true\">Paris</｜DSML｜parameter>\n"
       "<｜DSML｜parameter name=\"days\" string=\"false\">2</｜DSML｜parameter>\n"
       "</｜DSML｜invoke>\n<｜DSML｜invoke name=\"get_time\">\n"
       "<｜DSML｜parameter name=\"zone\" string=\"true\">12</｜DSML｜parameter>\n"
       "</｜DSML｜invoke>\n</｜DSML｜function_calls>",
       {"I look.",
        "hm",
        {{"get_weather", R"({"city": "Paris", "days": 2})"}, {"get_time", R"({"zone": "12"})"}}}},
      {"deepseek-v3.1",
       "I look.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>{\"city\": "
       "\"Paris\"}"
       "<｜tool▁call▁end｜><｜tool▁call▁begin｜>get_time<｜tool▁sep｜>{\"zone\": \"UTC\"}"
       "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
       {"I look.", "", {paris, utc}}},

      {"kimi",
       "So.<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0"
       "<|tool_call_argument_begin|>{\"city\": \"Paris\"}<|tool_call_end|><|tool_call_begin|>"
       "functions.get_time:1<|tool_call_argument_begin|>{\"zone\": \"UTC\"}<|tool_call_end|>"
       "<|tool_calls_section_end|>",
       {"So.", "", {paris, utc}}},

      {"gpt-oss",
       "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>Yes.",
       {"Yes.", "hm"}},
      {"gpt-oss",
       "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>commentary<|message|>I "
       "look.<|end|><|start|>assistant<|channel|>commentary to=functions.get_weather "
       "<|constrain|>json<|message|>{\"city\": \"Paris\"}<|call|>",
       {"I look.", "hm", {paris}}},
      {"gpt-oss",
       " to=functions.get_time<|channel|>commentary json<|message|>{\"zone\": \"UTC\"}",
       {"", "", {utc}}},
      {"gpt-oss", " Just text, a < b.", {" Just text, a < b."}},
      {"gpt-oss", "hm, <b>", {"", "hm, <b>", {}}, "<|channel|>analysis<|message|>"},

      {"gemma",
       "I look.\n```tool_code\nget_weather(city=\"Paris\")\nprint(get_time(zone='UTC'))\n```",
       {"I look.", "", {paris, utc}}},
      {"gemma",
       "```json\n[{\"name\": \"get_weather\", \"parameters\": {\"city\": \"Paris\"}}]\n```",
       {"", "", {paris}}},
      {"gemma", R"({"name": "get_time", "parameters": {"zone": "UTC"}})", {"", "", {utc}}},
      {"gemma", "```json\n{\"a\": 1}\n```", {"```json\n{\"a\": 1}\n```"}},
      {"gemma", "```tool_code\nx = 1\n```", {"```tool_code\nx = 1\n```"}},

      {"functiongemma",
       "<start_function_call>call:get_weather{city:<escape>Paris<escape>}<end_function_call>"
       "<start_function_call>call:get_time{zone:<escape>UTC<escape>}<end_function_call>",
       {"", "", {paris, utc}}},
      {"functiongemma",
       "I look.\n<start_function_call>\ncall:f{a:-1.5e3, b : true,c:None,<escape>d e<escape>:[1,"
       "<escape>{]\"\n<b><escape>,[],{}],f:{g:{h:<escape><escape>}}}\n<end_function_call> So.",
       {"I look.So.",
        "",
        {{"f", R"({"a": -1.5e3, "b": true, "c": null, "d e": [1, "{]\"\n<b>", [], {}], )"
               R"("f": {"g": {"h": ""}}})"}}}},
      {"functiongemma", "<start_function_call>call:f{}", {"", "", {{"f", "{}"}}}},
      {"functionary-v3.1",
       R"(So.<function=get_weather>{"city": "Paris"}</function>)",
       {"So.", "", {paris}}},
      {"functionary-v3.2",
       "all\nI look.\n>>>get_weather\n{\"city\": \"Paris\"}>>>get_time\n{\"zone\": \"UTC\"}",
       {"I look.", "", {paris, utc}},
       ">>>"},
      {"functionary-v3.2", "all\n>>> print(1)\n1", {">>> print(1)\n1"}, ">>>"},

      {"cohere",
       "<|START_THINKING|>hm<|END_THINKING|><|START_ACTION|>[\n    {\"tool_call_id\": \"0\", "
       "\"tool_name\": \"get_weather\", \"parameters\": {\"city\": \"Paris\"}}\n]<|END_ACTION|>",
       {"", "hm", {paris}}},
      {"cohere", "<|START_RESPONSE|>Yes.<|END_RESPONSE|>", {"Yes."}},
      {"command-r",
       "I will look.\nAction:\n```json\n[\n    {\n        \"tool_name\": \"get_weather\",\n        "
       "\"parameters\": {\"city\": \"Paris\"}\n    },\n    {\n        \"tool_name\": "
       "\"get_time\",\n"
       "        \"parameters\": {\"zone\": \"UTC\"}\n    }\n]```\n",
       {"I will look.", "", {paris, utc}}},
      {"command-r",
       R"(Action: ```json
[{"tool_name": "directly-answer", "parameters": {}}]
```)",
       {R"(Action: ```json
[{"tool_name": "directly-answer", "parameters": {}}]
```)"}},
      {"granite",
       R"(<|tool_call|>[{"name": "get_weather", "arguments": {"city": "Paris"}}, {"arguments": {"zone": "UTC"}, "name": "get_time"}])",
       {"", "", {paris, utc}}},
      {"granite", "<think>\nhm\n</think>\n<response>Yes.</response>", {"Yes.", "hm"}},
      {"granite", "Say <response><ok/></response>.", {"Say <response><ok/></response>."}},
      {"nemotron",
       R"(<think>hm</think><TOOLCALL>[{"name": "get_weather", "arguments": {"city": "Paris"}}]</TOOLCALL>)",
       {"", "hm", {paris}}},
      {"minimax-m1",
       "<tool_calls>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": "
       "\"Paris\"}}\n{\"name\": "
       "\"get_time\", \"arguments\": {\"zone\": \"UTC\"}}\n</tool_calls>",
       {"", "", {paris, utc}}},
      {"seed-oss",
       "<seed:think>hm</seed:think>I "
       "look.\n<seed:tool_call>\n<function=get_weather>\n<parameter=city>Paris"
       "</parameter>\n<parameter=days>3</parameter>\n</function>\n</seed:tool_call>",
       {"I look.", "hm", {{"get_weather", R"({"city": "Paris", "days": 3})"}}}},
      {"functionary-v2",
       "get_weather\n<|content|>{\"city\": "
       "\"Paris\"}\n<|from|>assistant\n<|recipient|>get_time\n<|content|>"
       "{\"zone\": \"UTC\"}",
       {"", "", {paris, utc}},
       "<|recipient|>"},
      {"functionary-v2", "all\n<|content|>Yes.", {"Yes."}, "<|recipient|>"},
      {"deepseek-v3",
       "I "
       "look.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```"
       "json\n{\"city\": "
       "\"Paris\"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
       {"I look.", "", {paris}}},
      {"llama3",
       R"({"type": "function", "name": "get_time", "parameters": {"zone": "UTC"}})",
       {"", "", {utc}}},
      {"llama3",
       "[get_weather(city='Paris', days=2)]",
       {"", "", {{"get_weather", R"({"city": "Paris", "days": 2})"}}}},
      {"mistral",
       R"([TOOL_CALLS] [{"name": "get_weather", "arguments": {"city": "Paris"}, "id": "a1b2c3d4e"}])",
       {"", "", {paris}}},
      {"mistral", R"([TOOL_CALLS]get_weather{"city": "Paris"})", {"", "", {paris}}},
      {"apertus",
       R"(<|tools_prefix|>[{"get_weather": {"city": "Paris"}}, {"get_time": {"zone": "UTC"}}]<|tools_suffix|>)",
       {"", "", {paris, utc}}},
      {"lfm2",
       R"(<|tool_call_start|>[get_weather(city="Paris", days=2)]<|tool_call_end|>Soon.)",
       {"Soon.", "", {{"get_weather", R"({"city": "Paris", "days": 2})"}}}},
      {"phi-4",
       R"(<|tool_call|>[{"name": "get_weather", "arguments": {"city": "Paris"}}]<|/tool_call|>)",
       {"", "", {paris}}},
  };
}

TEST(Dialects, ReadWhatTheirModelsWrite) {
  for (const Case& c : cases()) {
    OutputSettings settings = settings_of(c.dialect);
    settings.lead = c.lead;
    EXPECT_EQ(read_all_ways(settings, c.text), c.message) << c.dialect << ": " << c.text;
  }
}

// Without tools only reasoning is taken out, whatever stands there.
TEST(Dialects, WithoutToolsCallsAreContent) {
  for (const Case& c : cases()) {
    if (c.message.calls.empty()) continue;
    OutputSettings settings = settings_of(c.dialect, {});
    settings.lead = c.lead;
    const Message read = read_all_ways(settings, c.text);
    EXPECT_TRUE(read.calls.empty());
    EXPECT_EQ(read.reasoning, c.message.reasoning);
    const Call& call = c.message.calls[0];
    const bool has_call = read.content.find(call.name) != std::string::npos ||
                          read.content.find(call.arguments) != std::string::npos;
    EXPECT_TRUE(has_call) << read.content;
  }
}

TEST(Dialects, OneCallOnly) {
  for (const Case& c : cases()) {
    if (c.message.calls.size() < 2) continue;
    OutputSettings settings = settings_of(c.dialect);
    settings.lead = c.lead;
    settings.max_calls = 1;
    const Message read = read_all_ways(settings, c.text + " more");
    EXPECT_EQ(read.calls, std::vector{c.message.calls[0]}) << c.text;
    const auto parser = OutputParser::create(settings);
    parser->push(c.text);
    EXPECT_TRUE(parser->is_over());
  }
}

TEST(Dialects, PromptsLeadIntoAnswers) {
  const auto lead = [](std::string_view dialect, std::string_view prompt) {
    return prompt_lead(*find_dialect(dialect), prompt);
  };
  EXPECT_EQ(lead("hermes", "<|im_start|>assistant\n<think>\n"), "<think>");
  EXPECT_EQ(lead("hermes", "<|im_start|>assistant\n<think>\n\n</think>\n\n"), "");
  EXPECT_EQ(lead("hermes", "what does <think> mean?<|im_end|>assistant\n"), "");
  EXPECT_EQ(lead("functionary-v3.2", "<|end_header_id|>\n\n>>>"), ">>>");
  EXPECT_EQ(lead("gpt-oss", "<|start|>user<|message|>a<|end|><|start|>assistant"), "");
  EXPECT_EQ(lead("gpt-oss", "<|start|>assistant<|channel|>final<|message|>Yes"),
            "<|channel|>final<|message|>Yes");
  EXPECT_EQ(lead("gpt-oss", "<|start|>assistant<|channel|>final<|message|>Yes<|end|>"), "");
  EXPECT_EQ(lead("none", "<think>"), "");
  const auto continued = [](std::string_view begun) {
    return prompt_lead(*find_dialect("think"), begun, begun);
  };
  EXPECT_EQ(continued("<think>Let me"), "<think>");
  EXPECT_EQ(continued("<think>Let me</think>Yes"), "");
  EXPECT_EQ(continued("Yes"), "");
}

TEST(Dialects, WordsOfAContinuedMessageAreNoneOfTheAnswers) {
  const std::string header = "<|channel|>final<|message|>";
  const std::string prompt = "<|start|>user<|message|>a<|end|><|start|>assistant" + header;
  const auto lead = [&](const std::string& shown, const std::string& begun) {
    return prompt_lead(*find_dialect("gpt-oss"), prompt + shown, begun);
  };
  EXPECT_EQ(lead("Hello wor", "Hello wor"), header);
  EXPECT_EQ(lead("Hello wor", " Hello wor\n"), header) << "templates trim";
  EXPECT_EQ(lead(" Hello wor ", " Hello wor "), header);
  EXPECT_EQ(lead("say <|start|>assistant", "say <|start|>assistant"), header);
  const std::string words(1000, 'a');
  EXPECT_EQ(lead(words, words), header);
  EXPECT_EQ(lead(words, ""), header + words) << "the template's own words";
  EXPECT_EQ(prompt_lead(*find_dialect("gpt-oss"), "<|start|>assistant" + words), "");

  OutputSettings settings = settings_of("gpt-oss");
  settings.lead = lead("Hello wor", "Hello wor");
  EXPECT_EQ(read_all_ways(settings, "ld<|return|>"), Message{"ld"});
}

TEST(Dialects, AreTheMoreParticularOnesOfATemplate) {
  EXPECT_EQ(dialect_of_template("'<start_of_turn>' + role").name, "gemma");
  EXPECT_EQ(dialect_of_template("'<start_of_turn>' + role + '<start_function_call>call:'").name,
            "functiongemma");
}

TEST(Dialects, NamesAreUnique) {
  const auto names = dialect_names();
  for (const std::string& name : names) {
    EXPECT_EQ(std::count(names.begin(), names.end(), name), 1) << name;
    EXPECT_EQ(find_dialect(name)->name, name);
  }
  EXPECT_EQ(names.back(), "none");
  EXPECT_EQ(find_dialect("hermse"), nullptr);
}

}  // namespace
}  // namespace bp::text::chat::testing
