#pragma once
// The body of every error answer, in OpenAI's form.

#include <string>

namespace bp::server {

// {"error": {"message", "type", "param", "code"}}; the type follows from the status, an empty param
// or code is null. message may hold any bytes.
std::string error_body(int status, const std::string& message, const std::string& param = "",
                       const std::string& code = "");

}  // namespace bp::server
