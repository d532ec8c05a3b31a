#pragma once
// SentencePiece-style BPE with byte fallback (tokenizer.ggml.model "llama").

#include <memory>

#include "core/text/tokenizer.hpp"

namespace bp::text {

Result<std::unique_ptr<Tokenizer>> create_sentencepiece(Vocabulary vocabulary);

}  // namespace bp::text
