#pragma once
// Fields of other servers that this one does not have, with the values by which they ask for
// nothing. Clients send them unasked.

#include "core/server/field_reader.hpp"

namespace bp::server {

// Accepts such values; any other is refused by name. Call it after all other fields are read.
void accept_neutral_fields(FieldReader& fields);
// The same of a message.
void accept_neutral_message_fields(FieldReader& message);

}  // namespace bp::server
