#include "core/server/chat_tools.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "core/server/tool_schema.hpp"

namespace bp::server {

namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMaxTools = 128;
constexpr size_t kMaxToolNameBytes = 64;
constexpr size_t kMaxDescriptionBytes = 64 << 10;
constexpr size_t kMaxSchemaMembers = 256;

bool is_tool_name(const std::string& name) {
  return !name.empty() && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
  });
}

// {"name", "description", "parameters"} as templates expect it, without what only the API knows.
Json read_function(FieldReader& fields) {
  Json shown = Json::object();
  const auto name = fields.text("name", kMaxToolNameBytes);
  if (!name) fields.refuse("name", "is missing");
  if (name && !is_tool_name(*name)) {
    fields.refuse("name", "must have letters, digits, '_' and '-' only");
  }
  if (name) shown["name"] = *name;
  if (const auto text = fields.text("description", kMaxDescriptionBytes)) {
    shown["description"] = *text;
  }
  const Json* schema = fields.object("parameters", kMaxSchemaMembers);
  shown["parameters"] =
      schema != nullptr ? *schema : Json{{"type", "object"}, {"properties", Json::object()}};
  if (fields.boolean("strict").value_or(false)) {
    fields.refuse("strict", "needs constrained decoding, which is not supported");
  }
  fields.finish();
  return shown;
}

void read_tool(FieldReader& tool, const std::string& path, ChatTools& tools) {
  const auto type = tool.text("type", kMaxToolNameBytes);
  if (tool.ok() && type != "function") return tool.refuse("type", "must be \"function\"");
  const Json* function = tool.any("function");
  if (function == nullptr) return tool.refuse("function", "is missing");
  FieldReader fields(*function, path + "function.");
  Json shown = fields.ok() ? read_function(fields) : Json();
  tool.finish();
  if (fields.refusal()) tool.refuse(*fields.refusal());
  if (!tool.ok()) return;
  const auto& name = shown["name"].get_ref<const std::string&>();
  if (text::chat::find_tool(tools.offered, name) != nullptr) {
    return tool.refuse("function.name", fmt::format("stands twice: '{}'", name));
  }
  tools.offered.push_back({name, tool_parameters(shown["parameters"])});
  tools.shown.push_back(Json{{"type", "function"}, {"function", std::move(shown)}});
}

void read_list(FieldReader& fields, ChatTools& tools) {
  const Json* list = fields.array("tools", kMaxTools);
  if (list == nullptr || list->empty()) return;
  tools.shown = Json::array();
  for (size_t i = 0; i < list->size() && fields.ok(); ++i) {
    const std::string path = fmt::format("tools[{}].", i);
    FieldReader tool((*list)[i], path);
    if (tool.ok()) read_tool(tool, path, tools);
    if (tool.refusal()) fields.refuse(*tool.refusal());
  }
}

// Whether tools may be called at all.
bool read_choice(FieldReader& fields) {
  const Json* choice = fields.any("tool_choice");
  if (choice == nullptr || *choice == "auto") return true;
  if (*choice == "none") return false;
  fields.refuse("tool_choice",
                *choice == "required" || choice->is_object()
                    ? "must be \"auto\" or \"none\": to force a call needs constrained decoding, "
                      "which is not supported"
                    : "must be \"auto\" or \"none\"");
  return false;
}

}  // namespace

ChatTools read_tools(FieldReader& fields) {
  ChatTools tools;
  read_list(fields, tools);
  tools.parallel = fields.boolean("parallel_tool_calls").value_or(true);
  if (read_choice(fields)) return tools;
  return {Json(), {}, tools.parallel};
}

}  // namespace bp::server
