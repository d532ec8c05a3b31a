#pragma once
// The messages of a chat request as templates expect them.

#include <nlohmann/json_fwd.hpp>

#include "core/server/field_reader.hpp"

namespace bp::server {

// An array of {role, content, ...}: content parts are joined to one text, the arguments of tool
// calls are objects, or text where the template takes_argument_text. Null after a refusal.
nlohmann::ordered_json read_messages(FieldReader& fields, bool takes_argument_text);

}  // namespace bp::server
