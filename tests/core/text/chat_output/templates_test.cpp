// The chat templates of real models: the dialect that each has, and that what it renders for a tool
// call in a conversation reads back as that call.

#include <algorithm>
#include <nlohmann/json.hpp>

#include "reading.hpp"
#include "tests/core/text/jinja/recorded_templates.hpp"

namespace bp::text::chat::testing {
namespace {

using nlohmann::ordered_json;

struct Published {
  const char* name;
  const char* dialect;
  bool renders_calls = true;
};

constexpr Published kPublished[] = {
    {"Apertus-8B-Instruct", "apertus"},
    {"Cohere2MoE", "cohere"},
    {"GLM-4.7-Flash", "glm"},
    {"HuggingFaceTB-SmolLM3-3B", "think", false},
    {"LFM2.5-Instruct", "lfm2", false},
    {"NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", "qwen3-coder"},
    {"NousResearch-Hermes-3-Llama-3.1-8B-tool_use", "hermes"},
    {"Qwen-Qwen2.5-7B-Instruct", "hermes"},
    {"Qwen-Qwen3-0.6B", "hermes"},
    {"Reka-Edge", "hermes"},
    {"deepseek-ai-DeepSeek-V3.1", "deepseek-v3.1"},
    {"google-gemma-2-2b-it", "gemma", false},
    {"llama-cpp-deepseek-r1", "deepseek-v3", false},  // it fails on tools, in Python too
    {"meta-llama-Llama-3.1-8B-Instruct", "llama3"},
    {"microsoft-Phi-3.5-mini-instruct", "none", false},
    {"mistralai-Ministral-3-14B-Reasoning-2512", "mistral"},
    {"stepfun-ai-Step-3.5-Flash", "qwen3-coder"},
};

std::string read_template(const char* name) {
  const auto folder = template_folder();
  return folder ? read_text(*folder / (std::string(name) + ".jinja")) : std::string();
}

// Where the texts part, or where the mark begins within which they do.
size_t parting(const std::string& whole, const std::string& prompt) {
  const auto [at, unused] = std::mismatch(whole.begin(), whole.end(), prompt.begin(), prompt.end());
  const auto n = static_cast<size_t>(at - whole.begin());
  const size_t mark = whole.rfind("<|", n);
  return mark != std::string::npos && whole.find("|>", mark) > n ? mark : n;
}

class Templates : public ::testing::TestWithParam<Published> {
 protected:
  void SetUp() override {
    if (!template_folder()) GTEST_SKIP() << "BACKPLANE_TEST_DATA is not set";
    ASSERT_FALSE(read_template(GetParam().name).empty());
  }
};

class TemplatesWithCalls : public Templates {};

TEST_P(Templates, HaveTheirDialect) {
  EXPECT_EQ(dialect_of_template(read_template(GetParam().name)).name, GetParam().dialect);
}

// What the model would have written: from where the rendered call leaves the prompt for it.
TEST_P(TemplatesWithCalls, ReadBackWhatTheyRender) {
  const auto chat = ChatTemplate::create(read_template(GetParam().name), recorded_tokens());
  ASSERT_TRUE(chat.ok());
  const ordered_json arguments = {{"city", "Paris"}, {"days", 3}};
  const ordered_json call = {
      {"id", "abcdefgh1"},
      {"type", "function"},
      {"function",
       {{"name", "get_weather"},
        {"arguments",
         chat->message_form().argument_text ? ordered_json(arguments.dump()) : arguments}}}};
  const ordered_json tool = {
      {"type", "function"},
      {"function",
       {{"name", "get_weather"},
        {"description", "Weather."},
        {"parameters",
         {{"type", "object"},
          {"properties", {{"city", {{"type", "string"}}}, {"days", {{"type", "integer"}}}}}}}}}};
  ordered_json request = {{"messages", {{{"role", "user"}, {"content", "Weather?"}}}},
                          {"tools", ordered_json::array({tool})},
                          {"add_generation_prompt", true}};
  const auto prompt = chat->render(request, recorded_clock());
  ASSERT_TRUE(prompt.ok()) << prompt.status().message();
  request["messages"].push_back(
      {{"role", "assistant"}, {"content", ""}, {"tool_calls", ordered_json::array({call})}});
  request["add_generation_prompt"] = false;
  const auto whole = chat->render(request, recorded_clock());
  ASSERT_TRUE(whole.ok()) << whole.status().message();
  const std::string answer = whole->substr(parting(*whole, *prompt));
  const Message message = read_all_ways(settings_of(GetParam().dialect), answer);
  ASSERT_EQ(message.calls.size(), 1U) << answer;
  EXPECT_EQ(message.calls[0].name, "get_weather");
  EXPECT_EQ(ordered_json::parse(message.calls[0].arguments), arguments);
}

std::string test_name(const ::testing::TestParamInfo<Published>& published) {
  std::string name = published.param.name;
  std::erase_if(name, [](char c) { return !std::isalnum(c); });
  return name;
}

std::vector<Published> with_calls() {
  std::vector<Published> some;
  std::ranges::copy_if(kPublished, std::back_inserter(some), &Published::renders_calls);
  return some;
}

INSTANTIATE_TEST_SUITE_P(Published, Templates, ::testing::ValuesIn(kPublished), test_name);
INSTANTIATE_TEST_SUITE_P(Published, TemplatesWithCalls, ::testing::ValuesIn(with_calls()),
                         test_name);

}  // namespace
}  // namespace bp::text::chat::testing
