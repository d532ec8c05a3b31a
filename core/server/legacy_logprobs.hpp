#pragma once
// Log probabilities as /v1/completions has them: four parallel arrays.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "core/engine/request.hpp"
#include "core/text/detokenizer.hpp"
#include "core/text/tokenizer.hpp"

namespace bp::server {

struct LegacyLogprob {
  int32_t token = 0;
  const engine::PositionLogprobs* logprobs = nullptr;  // null: nothing comes before it
  uint64_t offset = 0;                                 // of TextOffsets
};

// Where tokens stand in the text that they become, in characters. The tokenizer outlives it.
class TextOffsets {
 public:
  // begin: where the text of the first token stands.
  TextOffsets(const text::Tokenizer& tokenizer, text::DecodeOptions options, uint64_t begin)
      : detokenizer_(tokenizer, options), end_(begin) {}

  // Where the text has room for the token, which may take none. A character that several tokens
  // make up counts for the first of them.
  uint64_t push(int32_t token);

 private:
  text::Detokenizer detokenizer_;
  uint64_t end_;  // of all characters that are complete
};

// Of valid UTF-8.
uint64_t count_characters(std::string_view text);

// Appends {"tokens":[..],"token_logprobs":[..],"top_logprobs":[..],"text_offset":[..]}.
void append_legacy_logprobs(std::span<const LegacyLogprob> entries,
                            const text::Tokenizer& tokenizer, std::string& out);

}  // namespace bp::server
