#pragma once
// tokenizer.model: a SentencePiece model as its library's protocol buffer.

#include <string_view>

#include "core/text/vocabulary.hpp"

namespace bp::text::huggingface {

// BPE models become a vocabulary of kind "llama"; unigram models get a pipeline.
Status read_sentencepiece_model(std::string_view bytes, Vocabulary& vocabulary);

}  // namespace bp::text::huggingface
