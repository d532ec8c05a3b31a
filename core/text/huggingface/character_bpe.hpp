#pragma once
// BPE over characters, as GGUF files name it: gemma4 and its like write a space as U+2581 and merge
// within lines; whitespace merges within words and drops what lies between them.

#include "core/text/vocabulary.hpp"

namespace bp::text::huggingface {

[[nodiscard]] bool is_character_bpe(const Vocabulary& vocabulary);

// Gives such a vocabulary its pipeline, for which its merges are taken.
Status make_character_bpe(Vocabulary& vocabulary);

}  // namespace bp::text::huggingface
