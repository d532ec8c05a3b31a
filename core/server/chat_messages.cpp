#include "core/server/chat_messages.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "core/base/json_tree.hpp"
#include "core/server/neutral_fields.hpp"
#include "core/text/chat_template.hpp"

namespace bp::server {

namespace {

using Json = nlohmann::ordered_json;
using text::MessageForm;

constexpr size_t kMaxMessages = 10'000;
constexpr size_t kMaxParts = 1'000;
constexpr size_t kMaxToolCalls = 256;
constexpr size_t kMaxNameBytes = 1024;
// Templates build control tokens out of roles, so that only known ones may pass.
constexpr std::string_view kRoles[] = {"system", "developer", "user", "assistant", "tool"};

void read_role(FieldReader& fields, const MessageForm& form, Json& message) {
  const auto role = fields.text("role", kMaxNameBytes);
  if (!role && fields.ok()) return fields.refuse("role", "is missing");
  if (!role) return;
  if (std::ranges::find(kRoles, *role) == std::end(kRoles)) {
    return fields.refuse("role", "must be one of system, developer, user, assistant, tool");
  }
  message["role"] = *role == "developer" && !form.developer_role ? "system" : *role;
}

// Text parts on lines of their own, as peers join them.
void read_parts(FieldReader& fields, const Json& parts, std::string& text) {
  if (parts.size() > kMaxParts) {
    return fields.refuse("content", fmt::format("must have at most {} parts", kMaxParts));
  }
  for (const Json& part : parts) {
    FieldReader own(part);
    const bool is_text = own.text("type", kMaxNameBytes) == "text";
    const auto said = own.text("text", SIZE_MAX);
    own.object("cache_control", 8);  // a hint where to cache; all of the prompt is
    own.finish();
    if (!is_text || !said || !own.ok()) {
      return fields.refuse("content", R"(must hold parts of {"type": "text", "text": "..."} only)");
    }
    if (&part != &parts.front()) text += '\n';
    text += *said;
  }
}

void read_content(FieldReader& fields, Json& message) {
  const Json* content = fields.any("content");
  if (!fields.ok()) return;
  if (content == nullptr) {
    if (message["role"] != "assistant") fields.refuse("content", "is missing");
    message["content"] = "";
  } else if (content->is_string()) {
    message["content"] = *content;
  } else if (content->is_array()) {
    std::string text;
    read_parts(fields, *content, text);
    message["content"] = std::move(text);
  } else {
    fields.refuse("content", "must be a string or an array of text parts");
  }
}

// Clients send the arguments as JSON text, most templates want them as values.
Json arguments_of(const Json& given, bool as_text) {
  if (given.is_object()) return as_text ? Json(given.dump()) : given;
  if (as_text) return given;
  auto parsed = base::parse_json<Json>(given.get_ref<const std::string&>());
  return parsed.ok() && parsed->is_object() ? std::move(parsed).value() : given;
}

// {"name", "arguments"}.
Json read_function(FieldReader& call, const std::string& path, bool as_text) {
  const Json* function = call.object("function", 8);
  if (function == nullptr) {
    call.refuse("function", "is missing");
    return {};
  }
  FieldReader fields(*function, path + "function.");
  const auto name = fields.text("name", kMaxNameBytes);
  if (!name) fields.refuse("name", "is missing");
  Json arguments = arguments_of(Json::object(), as_text);
  if (const Json* given = fields.any("arguments"); given != nullptr) {
    if (given->is_string() || given->is_object()) {
      arguments = arguments_of(*given, as_text);
    } else {
      fields.refuse("arguments", "must be a string or an object");
    }
  }
  fields.finish();
  if (fields.refusal()) call.refuse(*fields.refusal());
  return call.ok() ? Json{{"name", *name}, {"arguments", std::move(arguments)}} : Json();
}

// The text before the calls of a message that has reasoning, as the end of that.
void join_thought(Json& message) {
  std::string& content = message["content"].get_ref<std::string&>();
  if (content.empty() || !message.contains(text::kReasoningFields[0])) return;
  for (const char* name : text::kReasoningFields) {
    message[name] = message[name].get_ref<const std::string&>() + "\n\n" + content;
  }
  content.clear();
}

void read_tool_calls(FieldReader& fields, const std::string& path, const MessageForm& form,
                     Json& message) {
  const Json* calls = fields.array("tool_calls", kMaxToolCalls);
  if (calls == nullptr || calls->empty()) return;
  if (message["role"] != "assistant") {
    return fields.refuse("tool_calls", "belongs to assistant messages");
  }
  Json out = Json::array();
  for (size_t i = 0; i < calls->size() && fields.ok(); ++i) {
    const std::string call_path = fmt::format("{}tool_calls[{}].", path, i);
    FieldReader call((*calls)[i], call_path);
    Json read = Json::object();
    if (const auto id = call.text("id", kMaxNameBytes)) read["id"] = *id;
    if (call.text("type", kMaxNameBytes).value_or("function") != "function") {
      call.refuse("type", "must be \"function\"");
    }
    read["type"] = "function";
    // Clients that put streams together keep it.
    if (call.integer("index", 0, INT32_MAX).value_or(static_cast<int64_t>(i)) !=
        static_cast<int64_t>(i)) {
      call.refuse("index", "is not the call's place");
    }
    read["function"] = read_function(call, call_path, form.argument_text);
    call.finish();
    if (call.refusal()) fields.refuse(*call.refusal());
    out.push_back(std::move(read));
  }
  message["tool_calls"] = std::move(out);
  if (form.joins_thought) join_thought(message);
  if (form.null_content && message["content"] == "") message["content"] = nullptr;
}

// Templates call it one or the other.
void read_reasoning(FieldReader& fields, Json& message) {
  std::optional<std::string> reasoning;
  for (const char* name : text::kReasoningFields) {
    auto text = fields.text(name, SIZE_MAX);
    if (text && reasoning && *text != *reasoning) {
      return fields.refuse(name, "differs from another field of the same meaning");
    }
    if (text) reasoning = std::move(text);
  }
  if (!reasoning || reasoning->empty()) return;
  for (const char* name : text::kReasoningFields) message[name] = *reasoning;
}

using CallNames = std::unordered_map<std::string, std::string>;  // of functions, by the call's id

// The answer of a tool bears the name of the function whose call it belongs to.
void name_tool_message(CallNames& names, Json& message) {
  if (message.contains("tool_calls")) {
    for (const Json& call : message["tool_calls"]) {
      if (call.contains("id")) {
        names.insert_or_assign(call["id"].get_ref<const std::string&>(),
                               call["function"]["name"].get_ref<const std::string&>());
      }
    }
  }
  const bool needs_name = message["role"] == "tool" && !message.contains("name");
  if (!needs_name || !message.contains("tool_call_id")) return;
  const auto name = names.find(message["tool_call_id"].get_ref<const std::string&>());
  if (name != names.end()) message["name"] = name->second;
}

Json read_message(FieldReader& fields, const std::string& path, const MessageForm& form) {
  Json message = Json::object();
  read_role(fields, form, message);
  if (!fields.ok()) return message;
  read_content(fields, message);
  for (const char* name : {"name", "tool_call_id"}) {
    if (const auto text = fields.text(name, kMaxNameBytes)) message[name] = *text;
  }
  read_reasoning(fields, message);
  read_tool_calls(fields, path, form, message);
  accept_neutral_message_fields(fields);
  fields.finish();
  return message;
}

}  // namespace

Json read_messages(FieldReader& fields, const MessageForm& form) {
  const Json* messages = fields.array("messages", kMaxMessages);
  if (messages == nullptr || messages->empty()) {
    fields.refuse("messages", "must be an array of at least one message");
    return {};
  }
  Json out = Json::array();
  CallNames names;
  for (size_t i = 0; i < messages->size() && fields.ok(); ++i) {
    const std::string path = fmt::format("messages[{}].", i);
    FieldReader reader((*messages)[i], path);
    if (reader.ok()) {
      Json message = read_message(reader, path, form);
      if (reader.ok()) name_tool_message(names, message);
      out.push_back(std::move(message));
    }
    if (reader.refusal()) fields.refuse(*reader.refusal());
  }
  return out;
}

}  // namespace bp::server
