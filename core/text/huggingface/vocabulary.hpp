#pragma once
// The tokenizer's files of a Hugging Face folder as a Vocabulary.

#include "core/text/vocabulary.hpp"

namespace bp::text::huggingface {

// Whether the metadata hold tokenizer.json or tokenizer.model.
[[nodiscard]] bool has_vocabulary(MetadataView metadata);

// From tokenizer.huggingface.json, else tokenizer.sentencepiece.model; special tokens and the chat
// template from the configuration files beside them.
Result<Vocabulary> read_vocabulary(MetadataView metadata);

}  // namespace bp::text::huggingface
