#pragma once
// The messages of a chat request as templates expect them.

#include <nlohmann/json_fwd.hpp>

#include "core/server/field_reader.hpp"

namespace bp::text {
struct MessageForm;
}

namespace bp::server {

// An array of {role, content, ...}: content parts are joined to one text, the arguments of tool
// calls are objects or text, as the template wants them. Null after a refusal.
nlohmann::ordered_json read_messages(FieldReader& fields, const text::MessageForm& form);

}  // namespace bp::server
