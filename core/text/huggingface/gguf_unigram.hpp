#pragma once
// Unigram vocabularies as GGUF files hold them (model "t5"): scores, a charsmap, and flags for what
// becomes of spaces.

#include "core/text/vocabulary.hpp"

namespace bp::text::huggingface {

// Gives the vocabulary its pipeline.
Status make_gguf_unigram(Vocabulary& vocabulary);

}  // namespace bp::text::huggingface
