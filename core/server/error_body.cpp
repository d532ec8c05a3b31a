#include "core/server/error_body.hpp"

#include "core/server/json_text.hpp"

namespace bp::server {

namespace {

const char* error_type(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 429:
      return "rate_limit_error";
    default:
      return status >= 500 ? "server_error" : "invalid_request_error";
  }
}

void append_or_null(const std::string& text, std::string& out) {
  if (text.empty()) {
    out += "null";
  } else {
    append_string(text, out);
  }
}

}  // namespace

std::string error_body(int status, const std::string& message, const std::string& param,
                       const std::string& code) {
  std::string body = R"({"error":{"message":)";
  append_string(message, body);
  body += R"(,"type":")";
  body += error_type(status);
  body += R"(","param":)";
  append_or_null(param, body);
  body += R"(,"code":)";
  append_or_null(code, body);
  return body + "}}";
}

}  // namespace bp::server
