#pragma once
// Log probabilities as /v1/completions has them: four parallel arrays.

#include <cstdint>
#include <span>
#include <string>

#include "core/engine/request.hpp"
#include "core/text/tokenizer.hpp"

namespace bp::server {

struct LegacyLogprob {
  int32_t token = 0;
  const engine::PositionLogprobs* logprobs = nullptr;  // null: nothing comes before it
  bool is_text = true;                                 // false: takes no room in the text
};

// Appends {"tokens":[..],"token_logprobs":[..],"top_logprobs":[..],"text_offset":[..]}. Offsets
// count characters from `offset`, which is moved behind the last token.
void append_legacy_logprobs(std::span<const LegacyLogprob> entries,
                            const text::Tokenizer& tokenizer, uint64_t& offset, std::string& out);

}  // namespace bp::server
