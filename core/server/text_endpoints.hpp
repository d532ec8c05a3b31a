#pragma once
// Endpoints that turn texts to token ids and back without the engine. Each gives the body of its
// answer; it counts only where the reader has no refusal.

#include <string>

#include "core/server/text_call.hpp"

namespace bp::server {

std::string tokenize(FieldReader& fields, const CallContext& context);
std::string detokenize(FieldReader& fields, const CallContext& context);
// The prompt of a request as the model would get it; for completions an array of them.
std::string render_chat_call(FieldReader& fields, const CallContext& context);
std::string render_completion_call(FieldReader& fields, const CallContext& context);

}  // namespace bp::server
