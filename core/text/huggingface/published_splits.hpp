#pragma once
// Sequences of splits that GGUF has a name for as a whole.

#include <span>
#include <string>
#include <string_view>

namespace bp::text::huggingface {

// steps: of a Split that isolates its matches the regular expression, of Digits that which it
// stands for, of Punctuation "Punctuation BEHAVIOR", of a ByteLevel that splits "ByteLevel". Empty
// where there is none.
[[nodiscard]] std::string_view published_pre_tokenizer(std::span<const std::string> steps);

}  // namespace bp::text::huggingface
