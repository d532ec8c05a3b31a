#pragma once
// The fields of a request that its chat template sees, and the prompt it makes of them.

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/server/text_call.hpp"

namespace bp::server {

struct ChatPromptFields {
  nlohmann::ordered_json variables;
  std::shared_ptr<const text::ChatTemplate> chat_template;
  bool continue_final_message = false;
  text::chat::OutputSettings output;
};

ChatPromptFields read_chat_prompt_fields(FieldReader& fields, const CallContext& context);
// Null after a refusal.
std::optional<Prompt> make_chat_prompt(FieldReader& fields, const CallContext& context,
                                       const ChatPromptFields& chat, bool add_bos);

// Refuses a text that has more tokens than the context, before it is encoded.
void check_prompt_bytes(FieldReader& fields, const CallContext& context, const std::string& param,
                        size_t n_bytes);

}  // namespace bp::server
