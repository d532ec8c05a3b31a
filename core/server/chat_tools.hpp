#pragma once
// The tools that a chat request offers to the model.

#include <nlohmann/json.hpp>

#include "core/server/field_reader.hpp"
#include "core/text/chat_output/tool.hpp"

namespace bp::server {

struct ChatTools {
  nlohmann::ordered_json shown;  // what the template sees; null where there are none
  text::chat::Tools offered;     // what answers may call
  bool parallel = true;          // an answer may have several calls
};

// Reads tools, tool_choice and parallel_tool_calls. With tool_choice "none" there are no tools.
ChatTools read_tools(FieldReader& fields);

}  // namespace bp::server
