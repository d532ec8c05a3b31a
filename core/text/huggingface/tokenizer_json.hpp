#pragma once
// tokenizer.json as data.

#include <string_view>

#include "core/text/vocabulary.hpp"

namespace bp::text::huggingface {

// Fills tokens, types, added tokens, unk, prefix, suffix and the pipeline.
Status read_tokenizer_json(std::string_view text, Vocabulary& vocabulary);

}  // namespace bp::text::huggingface
