#pragma once
// Unigram and WordPiece vocabularies of tokenizer.json as GGUF writes them.

#include "core/text/huggingface/pipeline.hpp"
#include "core/text/vocabulary.hpp"

namespace bp::text {

// Refuse what the form cannot say. The vocabulary keeps its pipeline.
Status write_unigram(const huggingface::Pipeline& pipeline, Vocabulary& vocabulary);
Status write_wordpiece(const huggingface::Pipeline& pipeline, Vocabulary& vocabulary);

}  // namespace bp::text
