#include "core/text/message_form.hpp"

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "core/text/chat_template.hpp"

namespace bp::text {

namespace {

using Json = nlohmann::ordered_json;

constexpr uint64_t kProbeFuel = 200'000;

class Probe {
 public:
  explicit Probe(const ChatTemplate& chat) : chat_(chat) {}

  // Empty where the template refuses the conversation.
  [[nodiscard]] std::string rendered(const Json& messages, bool with_tools = true) const {
    jinja::RenderOptions options;
    options.fuel = kProbeFuel;
    options.now.tm_mday = 1;
    const Json parameters = {{"type", "object"}, {"properties", Json::object()}};
    const Json tool = {
        {"type", "function"},
        {"function", {{"name", "f"}, {"description", "f"}, {"parameters", parameters}}}};
    const Json tools = with_tools ? Json::array({tool}) : Json();
    auto text = chat_.render({{"messages", messages}, {"tools", tools}}, options);
    return text.ok() ? std::move(text).value() : std::string();
  }
  [[nodiscard]] bool shows(const Json& messages, std::string_view text) const {
    return rendered(messages).find(text) != std::string::npos;
  }

 private:
  const ChatTemplate& chat_;
};

constexpr char kAsked[] = "asked";
const Json kQuestion = {{"role", "user"}, {"content", kAsked}};

Json call_of(const Json& arguments) {
  return {{"id", "123456789"},
          {"type", "function"},
          {"function", {{"name", "f"}, {"arguments", arguments}}}};
}

// An answer that calls after a question.
Json conversation(const Json& content, const Json& calls) {
  return {kQuestion, {{"role", "assistant"}, {"content", content}, {"tool_calls", calls}}};
}

// Whether calls show in messages with that content, and then how they are to be given. Templates
// that join the arguments to text fail on objects, or write them as Python does.
bool find_form_of_calls(const Probe& probe, bool null_content, MessageForm& form) {
  constexpr char kText[] = R"({"probe": "1"})";
  const Json content = null_content ? Json() : Json("");
  const auto with = [&](const Json& arguments) {
    return conversation(content, Json::array({call_of(arguments)}));
  };
  const std::string by_object = probe.rendered(with({{"probe", "1"}}));
  const bool shows_object = by_object.find("probe") != std::string::npos;
  const bool is_python = by_object.find("'probe'") != std::string::npos;
  const bool takes_object = shows_object && !is_python;
  const bool takes_text = !takes_object && probe.shows(with(kText), kText);
  if (!shows_object && !takes_text) return false;
  form.argument_text = takes_text;
  form.null_content = null_content;
  return true;
}

void find_what_stands_beside_calls(const Probe& probe, MessageForm& form) {
  const auto call = [&](const char* name) {
    const Json arguments = {{name, "1"}};
    return call_of(form.argument_text ? Json(arguments.dump()) : arguments);
  };
  const Json content = form.null_content ? Json() : Json("");
  const Json two = conversation(content, Json::array({call("first"), call("second")}));
  form.single_call = !probe.shows(two, "second");
  Json answer = conversation("said", Json::array({call("first")}));
  if (probe.rendered(answer).empty()) return;
  for (const char* name : kReasoningFields) answer[1][name] = "thought";
  form.joins_thought = probe.rendered(answer).empty();
}

}  // namespace

MessageForm find_message_form(const ChatTemplate& chat) {
  const Probe probe(chat);
  MessageForm form;
  form.developer_role = chat.mentions("developer");
  const Json told = {{{"role", "system"}, {"content", "told"}}, kQuestion};
  const std::string untold = probe.rendered(Json::array({kQuestion}), false);
  form.system_role = untold.find(kAsked) == std::string::npos ||
                     probe.rendered(told, false).find("told") != std::string::npos;
  // No text is "" to most templates, which search it or write it down, and null to those that show
  // calls for nothing else.
  const bool shows_calls = chat.mentions("arguments") && (find_form_of_calls(probe, false, form) ||
                                                          find_form_of_calls(probe, true, form));
  if (shows_calls) find_what_stands_beside_calls(probe, form);
  return form;
}

}  // namespace bp::text
