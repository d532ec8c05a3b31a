#pragma once
// Byte-level BPE (tokenizer.ggml.model "gpt2").

#include <memory>

#include "core/text/tokenizer.hpp"

namespace bp::text {

// Bytes that the vocabulary has no token for are dropped, as the models' own tokenizers do.
Result<std::unique_ptr<Tokenizer>> create_byte_bpe(Vocabulary vocabulary);

}  // namespace bp::text
