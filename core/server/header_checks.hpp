#pragma once
// Checks of a request's raw header that the parser does not make. Each line of them is a way to
// smuggle a second request past the first.

#include <string>
#include <string_view>

namespace bp::server {

// Of names and tokens in headers, which are ASCII.
[[nodiscard]] bool same_ignoring_case(std::string_view a, std::string_view b);

struct HeaderFault {
  int status = 0;  // 0: no fault
  std::string message;
};

// `header` is everything up to and including the empty line. Refused: line folding, bare CR or LF,
// NUL, another Transfer-Encoding than `chunked`, one in HTTP/1.0, both Transfer-Encoding and
// Content-Length, several Content-Length, no or several Host, white space before a colon.
HeaderFault check_header(std::string_view header);

}  // namespace bp::server
