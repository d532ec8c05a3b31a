#pragma once
// A JSON text as a tree: no key twice in an object, a bounded depth, and an error says where the text breaks off.

#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "backplane/status.hpp"

namespace bp::text::huggingface {

Result<nlohmann::json> parse_tree(std::string_view text);

}  // namespace bp::text::huggingface
