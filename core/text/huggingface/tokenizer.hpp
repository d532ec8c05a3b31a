#pragma once
// The tokenizer that a tokenizer.json describes: normalizer, splits, model, decoder.

#include <memory>

#include "core/text/tokenizer.hpp"

namespace bp::text {

// Precondition: vocabulary.huggingface.
Result<std::unique_ptr<Tokenizer>> create_huggingface(Vocabulary vocabulary);

}  // namespace bp::text
