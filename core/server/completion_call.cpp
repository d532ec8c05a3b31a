#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "core/server/chat_prompt.hpp"
#include "core/server/neutral_fields.hpp"
#include "core/server/prompt.hpp"
#include "core/server/text_call.hpp"

namespace bp::server {

namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kDefaultMaxTokens = 16;
constexpr int64_t kMaxLogprobs = 20;
constexpr const char* kPromptForms = "must be a text, token ids, or an array of either";

void add_text(FieldReader& fields, const CallContext& c, const Json& text, TextCall& call) {
  Prompt prompt;
  prompt.text = text.get<std::string>();
  check_prompt_bytes(fields, c, "prompt", prompt.text.size());
  if (!fields.ok()) return;
  prompt.ids = encode_prompt(*c.model.tokenizer, prompt.text, {}, call.add_bos);
  const text::Vocabulary& v = c.model.tokenizer->vocabulary();
  prompt.has_added_bos = !prompt.ids.empty() && prompt.ids.front() == v.bos &&
                         !prompt.text.starts_with(c.model.tokenizer->token_bytes(v.bos, true));
  call.prompts.push_back(std::move(prompt));
}

void add_ids(FieldReader& fields, const CallContext& c, const Json& ids, TextCall& call) {
  std::string error;
  auto read =
      read_ids(ids, static_cast<uint32_t>(c.model.tokenizer->vocabulary().n_tokens()), error);
  if (!read) return fields.refuse("prompt", error);
  Prompt prompt;
  if (call.echo) prompt.text = c.model.tokenizer->decode(*read, {.special = true});
  prompt.ids = *std::move(read);
  call.prompts.push_back(std::move(prompt));
}

void add_prompt(FieldReader& fields, const CallContext& c, const Json& prompt, TextCall& call) {
  if (prompt.is_string()) {
    add_text(fields, c, prompt, call);
  } else if (prompt.is_array()) {
    add_ids(fields, c, prompt, call);
  } else {
    fields.refuse("prompt", kPromptForms);
  }
}

void read_prompts(FieldReader& fields, const CallContext& c, TextCall& call) {
  const Json* prompt = fields.any("prompt");
  if (!fields.ok()) return;
  if (prompt == nullptr) return fields.refuse("prompt", "is missing");
  const bool is_list = prompt->is_array() && !prompt->empty() && !prompt->front().is_number();
  if (!is_list) return add_prompt(fields, c, *prompt, call);
  if (prompt->size() > c.max_prompts) {
    return fields.refuse("prompt", fmt::format("must hold at most {} prompts", c.max_prompts));
  }
  for (const Json& one : *prompt) {
    if (fields.ok()) add_prompt(fields, c, one, call);
  }
}

void read_logprobs(FieldReader& fields, TextCall& call) {
  const auto n_top = fields.integer("logprobs", 0, kMaxLogprobs);
  if (!n_top) return;
  call.request.logprobs = true;
  call.request.n_top_logprobs = static_cast<uint32_t>(*n_top);
  call.request.prompt_logprobs = call.echo;
}

void read_length(FieldReader& fields, TextCall& call) {
  const int64_t n = fields.integer("max_tokens", 0, INT32_MAX).value_or(kDefaultMaxTokens);
  call.request.max_tokens = static_cast<uint32_t>(n);
  call.request.prompt_only = n == 0;
  if (n == 0 && call.request.n > 1) fields.refuse("n", "must be 1 where 'max_tokens' is 0");
}

}  // namespace

void read_completion_call(FieldReader& fields, const CallContext& c, TextCall& call) {
  read_generation_fields(fields, c, call);
  call.echo = fields.boolean("echo").value_or(false);
  read_logprobs(fields, call);
  read_length(fields, call);
  check_lengths(fields, call);
  fields.any("prompt");  // read last: encoding is the costly part
  accept_neutral_fields(fields);
  fields.finish();
  if (fields.ok()) read_prompts(fields, c, call);
  if (fields.ok()) check_context(fields, c, "prompt", call);
}

}  // namespace bp::server
