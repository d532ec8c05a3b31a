#pragma once
// The model of tokenizer.json: its tokens, and how pieces become them.

#include <nlohmann/json_fwd.hpp>

#include "core/text/huggingface/pipeline.hpp"
#include "core/text/vocabulary.hpp"

namespace bp::text::huggingface {

Status read_model(const nlohmann::json& model, Vocabulary& vocabulary, Pipeline& pipeline);

// Makes `text` the token `id`; ids that no text has are unused tokens.
Status set_token(Vocabulary& vocabulary, int64_t id, std::string_view text, TokenType type);

}  // namespace bp::text::huggingface
