#pragma once
// Text out of files: validation, and quoting for messages.

#include <string>
#include <string_view>

namespace bp::gguf {

// Well-formed UTF-8 (no overlong forms, surrogates or values above U+10FFFF) without NUL.
[[nodiscard]] bool is_text(std::string_view bytes);

// In double quotes, printable ASCII as it is, other bytes as \xHH, cut to fit an error message.
[[nodiscard]] std::string quoted(std::string_view bytes);

// The path, or "..." and its end when it is too long for an error message.
[[nodiscard]] std::string shortened_path(std::string_view path);

}  // namespace bp::gguf
