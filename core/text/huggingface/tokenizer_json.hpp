#pragma once
// tokenizer.json as data.

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "core/text/vocabulary.hpp"

namespace bp::text::huggingface {

// Fills tokens, types, added tokens, unk, prefix, suffix and the pipeline.
Status read_tokenizer_json(std::string_view text, Vocabulary& vocabulary);

// One of added_tokens: sets its text and type, and says how it is found.
Result<AddedToken> add_token(const nlohmann::json& token, int64_t id, Vocabulary& vocabulary);

}  // namespace bp::text::huggingface
