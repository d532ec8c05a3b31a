#pragma once
// A call as Python writes it, to a function's name and arguments in JSON.

#include <optional>
#include <string>
#include <string_view>

#include "core/text/chat_output/tool.hpp"

namespace bp::text::chat {

struct PythonCall {
  std::string name;
  std::string arguments;  // a JSON object
};

// f(a=1, b=[True, None]): keyword arguments, and positional ones where the function is known.
// print(f(..)) is f(..). Null where the text is anything else.
std::optional<PythonCall> parse_python_call(std::string_view text, const Tools& tools);

// The function's name in the beginning of a call: without "(" and the method ".call".
std::string_view python_function(std::string_view text);

}  // namespace bp::text::chat
