#pragma once
// WordPiece for lower-cased text (tokenizer.ggml.model "bert").

#include <memory>

#include "core/text/tokenizer.hpp"

namespace bp::text {

Result<std::unique_ptr<Tokenizer>> create_wordpiece(Vocabulary vocabulary);

}  // namespace bp::text
