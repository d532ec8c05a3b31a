#pragma once
// The functions that a request offers to the model, as far as reading its answer needs them.

#include <string>
#include <string_view>
#include <vector>

namespace bp::text::chat {

struct ToolParameter {
  std::string name;
  bool is_text = false;  // the schema allows a text: what the model writes is never JSON
};

struct Tool {
  std::string name;
  std::vector<ToolParameter> parameters;  // in the schema's order
};
using Tools = std::vector<Tool>;

// Null where there is none of that name.
inline const Tool* find_tool(const Tools& tools, std::string_view name) {
  for (const Tool& tool : tools) {
    if (tool.name == name) return &tool;
  }
  return nullptr;
}

inline const ToolParameter* find_parameter(const Tool* tool, std::string_view name) {
  if (tool == nullptr) return nullptr;
  for (const ToolParameter& parameter : tool->parameters) {
    if (parameter.name == name) return &parameter;
  }
  return nullptr;
}

}  // namespace bp::text::chat
