#pragma once

#include <string>
#include <string_view>

namespace bp::text::jinja {

// The contents of a string literal, with Python's escapes resolved. Raises kSyntax errors.
std::string unescape(std::string_view literal, int line);

}  // namespace bp::text::jinja
