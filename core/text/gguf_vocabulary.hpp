#pragma once
// The tokenizer of a Hugging Face folder as GGUF files hold theirs.

#include "core/text/vocabulary.hpp"

namespace bp::text {

// Tokens, types, scores, merges and flags as read_vocabulary gives them for a GGUF file, padded to
// n_tokens. An error says what of the tokenizer GGUF has no form for. Others than those of
// Hugging Face stay as they are.
Result<Vocabulary> gguf_vocabulary(Vocabulary vocabulary, int64_t n_tokens);

}  // namespace bp::text
