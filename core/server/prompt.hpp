#pragma once
// Conversations and texts to token ids.

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "backplane/status.hpp"
#include "core/text/chat_template.hpp"
#include "core/text/tokenizer.hpp"

namespace bp::server {

// Text in which the template's control tokens are tokens, and those that the conversation spells
// out are not.
struct RenderedChat {
  std::string text;
  std::vector<size_t> plain_at;  // offsets where no control token begins
};

// `variables`: the template's; their strings are the caller's words.
Result<RenderedChat> render_chat(const text::ChatTemplate& chat_template,
                                 const text::Tokenizer& tokenizer,
                                 nlohmann::ordered_json variables);

// With BOS in front if the vocabulary asks for it and the text does not begin with it already.
std::vector<int32_t> encode_prompt(const text::Tokenizer& tokenizer, std::string_view text,
                                   std::span<const size_t> plain_at = {}, bool add_bos = true);

// Bytes of the longest text that may fit the context.
size_t max_prompt_bytes(const text::Tokenizer& tokenizer, uint32_t context);

}  // namespace bp::server
