#pragma once
// A vocabulary as tokenizer.* keys of a GGUF file.

#include "core/convert/metadata_table.hpp"
#include "core/text/vocabulary.hpp"

namespace bp::convert {

// Precondition: of text::gguf_vocabulary.
void put_vocabulary(const text::Vocabulary& vocabulary, MetadataTable& metadata);

}  // namespace bp::convert
