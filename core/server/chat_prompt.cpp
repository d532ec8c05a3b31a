#include "core/server/chat_prompt.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "core/server/chat_messages.hpp"
#include "core/server/chat_tools.hpp"
#include "core/server/prompt.hpp"

namespace bp::server {

namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMaxTemplateBytes = 256 << 10;
constexpr size_t kMaxVariables = 64;
constexpr size_t kMaxEffortBytes = 64;

text::TokenTexts token_texts(const text::Vocabulary& v) {
  text::TokenTexts texts;
  const std::pair<const char*, int32_t> tokens[] = {
      {"bos_token", v.bos}, {"eos_token", v.eos}, {"unk_token", v.unk}, {"pad_token", v.pad}};
  for (const auto& [name, id] : tokens) {
    if (v.contains(id)) texts[name] = v.tokens[static_cast<size_t>(id)];
  }
  return texts;
}

void read_template(FieldReader& fields, const CallContext& c, ChatPromptFields& chat) {
  chat.chat_template = c.model.chat_template;
  if (fields.has("chat_template") && !c.request_templates) {
    fields.refuse("chat_template", "is not allowed by this server's configuration");
  }
  if (auto source = fields.text("chat_template", kMaxTemplateBytes)) {
    auto parsed = text::ChatTemplate::create(*std::move(source),
                                             token_texts(c.model.tokenizer->vocabulary()));
    if (!parsed.ok()) return fields.refuse("chat_template", parsed.status().message());
    chat.chat_template = std::make_shared<text::ChatTemplate>(std::move(parsed).value());
  }
  if (fields.ok() && chat.chat_template == nullptr) {
    fields.refuse({400, "the model has no chat template: use /v1/completions", {}, {}});
  }
}

void read_variables(FieldReader& fields, Json& variables) {
  const Json* more = fields.object("chat_template_kwargs", kMaxVariables);
  if (more == nullptr) return;
  for (const auto& [name, value] : more->items()) {
    if (name == "messages" || name == "tools" || name == "add_generation_prompt") {
      return fields.refuse("chat_template_kwargs", fmt::format("must not hold '{}'", name));
    }
    if (variables.contains(name) && variables[name] != value) {
      return fields.refuse("chat_template_kwargs", fmt::format("differs from '{}'", name));
    }
    variables[name] = value;
  }
}

// Tools are shown to the model, and its calls are understood.
void check_tools(FieldReader& fields, const ChatPromptFields& chat) {
  if (!fields.ok() || chat.output.tools.empty()) return;
  if (!chat.chat_template->mentions("tools")) {
    return fields.refuse("tools", "is not supported by the model's chat template");
  }
  if (!chat.output.dialect->has_calls()) {
    fields.refuse("tools",
                  "is not supported: how the model writes calls is not known; the "
                  "configuration's 'chat: output' may say it");
  }
}

uint32_t count_calls(const Json& messages) {
  size_t n = 0;
  for (const Json& message : messages) {
    if (message.contains("tool_calls")) n += message["tool_calls"].size();
  }
  return static_cast<uint32_t>(n);
}

void read_output(FieldReader& fields, const CallContext& c, ChatPromptFields& chat) {
  ChatTools tools = read_tools(fields);
  if (!fields.ok()) return;
  chat.output.dialect = c.model.chat_output != nullptr
                            ? c.model.chat_output
                            : &text::chat::dialect_of_template(chat.chat_template->source());
  chat.output.tools = std::move(tools.offered);
  chat.output.n_earlier_calls = count_calls(chat.variables["messages"]);
  // Of several the next prompt would show one, or none.
  const bool is_single = chat.chat_template->message_form().single_call;
  if (!tools.parallel || is_single) chat.output.max_calls = 1;
  if (!tools.shown.is_null()) chat.variables["tools"] = std::move(tools.shown);
  check_tools(fields, chat);
}

// The configured system message, where the conversation brings none.
void add_system_message(const std::string& text, Json& messages) {
  if (text.empty() || !messages.is_array() || messages.empty()) return;
  const std::string role = messages.front().value("role", "");
  if (role == "system" || role == "developer") return;
  messages.insert(messages.begin(), Json{{"role", "system"}, {"content", text}});
}

std::string_view trim_left(std::string_view text) {
  return text.substr(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
}

std::string_view trim(std::string_view text) {
  return trim_left(text.substr(0, text.find_last_not_of(" \t\r\n") + 1));
}

// What the system says, as the begin of what the user says next. Never empty: where nobody says
// anything, that is what the user says.
Json said_by_the_user(Json messages) {
  Json out = Json::array();
  std::string said;
  for (Json& message : messages) {
    if (message["role"] == "system") {
      const auto& content = message["content"].get_ref<const std::string&>();
      if (!content.empty()) said += content + "\n\n";
      continue;
    }
    if (message["role"] == "user") {
      message["content"].get_ref<std::string&>().insert(0, std::exchange(said, {}));
    }
    out.push_back(std::move(message));
  }
  if (!said.empty() || out.empty()) {
    out.push_back({{"role", "user"}, {"content", std::string(trim(said))}});
  }
  return out;
}

// A variable of templates that know it, under its name among OpenAI's fields.
void read_reasoning_effort(FieldReader& fields, ChatPromptFields& chat) {
  constexpr const char* kName = "reasoning_effort";
  if (!fields.ok() || !chat.chat_template->mentions(kName)) return;
  if (const auto effort = fields.text(kName, kMaxEffortBytes)) chat.variables[kName] = *effort;
}

// What the template puts behind the last message, from the same conversation with a message that
// cannot be mistaken for a part of it; npos where it does not show.
size_t tail_bytes(const ChatPromptFields& chat, const text::Tokenizer& tokenizer) {
  static constexpr std::string_view kStandIn = "final-message-6f1c9b0e";
  Json variables = chat.variables;
  variables["messages"].back()["content"] = kStandIn;
  const auto rendered = render_chat(*chat.chat_template, tokenizer, variables);
  const size_t at = rendered.ok() ? rendered->text.rfind(kStandIn) : std::string::npos;
  return at == std::string::npos ? at : rendered->text.size() - at - kStandIn.size();
}

// Where the last message ends, which templates may have trimmed; npos where it is not found.
size_t end_of_final_message(const std::string& text, std::string_view content, size_t n_tail) {
  const std::string_view trimmed = trim(content);
  if (trimmed.empty()) return std::string::npos;
  if (n_tail <= text.size()) {
    const std::string_view head = std::string_view(text).substr(0, text.size() - n_tail);
    const std::string_view kept = head.substr(0, head.find_last_not_of(" \t\r\n") + 1);
    if (kept.ends_with(trimmed)) return head.size();
  }
  const size_t begin = text.rfind(trimmed);
  if (begin == std::string::npos) return begin;
  const std::string_view untrimmed = trim_left(content);
  const bool is_whole = std::string_view(text).substr(begin, untrimmed.size()) == untrimmed;
  return begin + (is_whole ? untrimmed.size() : trimmed.size());
}

// Cuts what the template puts behind the last message.
bool cut_after_final_message(RenderedChat& rendered, std::string_view content, size_t n_tail) {
  const size_t end = end_of_final_message(rendered.text, content, n_tail);
  if (end == std::string::npos) return false;
  rendered.text.resize(end);
  std::erase_if(rendered.plain_at, [&](size_t at) { return at >= rendered.text.size(); });
  return true;
}

}  // namespace

ChatPromptFields read_chat_prompt_fields(FieldReader& fields, const CallContext& c) {
  ChatPromptFields chat;
  // A null that becomes an object by assignment is left broken where memory runs out.
  chat.variables = Json::object();
  read_template(fields, c, chat);
  const auto form = fields.ok() ? chat.chat_template->message_form() : text::MessageForm();
  chat.variables["messages"] = read_messages(fields, form);
  read_output(fields, c, chat);
  add_system_message(c.model.chat_system, chat.variables["messages"]);
  if (fields.ok() && !form.system_role) {
    Json& messages = chat.variables["messages"];
    messages = said_by_the_user(std::move(messages));
  }
  read_reasoning_effort(fields, chat);
  chat.continue_final_message = fields.boolean("continue_final_message").value_or(false);
  const bool add = fields.boolean("add_generation_prompt").value_or(!chat.continue_final_message);
  if (add && chat.continue_final_message) {
    fields.refuse("add_generation_prompt", "must be false with 'continue_final_message'");
  }
  chat.variables["add_generation_prompt"] = add;
  read_variables(fields, chat.variables);
  return chat;
}

void check_prompt_bytes(FieldReader& fields, const CallContext& c, const std::string& param,
                        size_t n_bytes) {
  if (n_bytes <= c.max_prompt_bytes) return;
  fields.refuse({400,
                 fmt::format("This model's maximum context length is {} tokens. A prompt of {} "
                             "bytes is longer.",
                             c.model.engine->context(), n_bytes),
                 param, "context_length_exceeded"});
}

std::optional<Prompt> make_chat_prompt(FieldReader& fields, const CallContext& c,
                                       const ChatPromptFields& chat, bool add_bos) {
  const Json last = chat.variables["messages"].back()["content"];
  auto rendered = render_chat(*chat.chat_template, *c.model.tokenizer, chat.variables);
  if (!rendered.ok()) {
    fields.refuse("messages", "are refused by the chat template: " + rendered.status().message());
    return std::nullopt;
  }
  const bool cut =
      !chat.continue_final_message ||
      (last.is_string() && cut_after_final_message(*rendered, last.get_ref<const std::string&>(),
                                                   tail_bytes(chat, *c.model.tokenizer)));
  if (!cut) fields.refuse("continue_final_message", "finds no final message in the prompt");
  check_prompt_bytes(fields, c, "messages", rendered->text.size());
  if (!fields.ok()) return std::nullopt;
  Prompt prompt;
  prompt.ids = encode_prompt(*c.model.tokenizer, rendered->text, rendered->plain_at, add_bos);
  prompt.text = std::move(rendered->text);
  return prompt;
}

}  // namespace bp::server
