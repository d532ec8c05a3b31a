#pragma once
// The JSON schema of a tool's parameters, as far as reading calls needs it.

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "core/text/chat_output/tool.hpp"

namespace bp::server {

// The schema's properties, in its order. A parameter is a text where the schema allows one, also
// among other types: directly, by one of several schemas, by a reference within the schema or by
// the values that it lists.
std::vector<text::chat::ToolParameter> tool_parameters(const nlohmann::ordered_json& schema);

}  // namespace bp::server
