#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "core/server/chat_messages.hpp"
#include "core/server/chat_prompt.hpp"
#include "core/server/neutral_fields.hpp"
#include "core/server/text_call.hpp"

namespace bp::server {

namespace {

constexpr int64_t kMaxTopLogprobs = 20;

void read_max_tokens(FieldReader& fields, engine::Request& request) {
  const auto current = fields.integer("max_completion_tokens", 1, INT32_MAX);
  const auto former = fields.integer("max_tokens", 1, INT32_MAX);
  if (current && former && *current != *former) {
    return fields.refuse("max_tokens", "differs from 'max_completion_tokens'");
  }
  request.max_tokens = static_cast<uint32_t>(current.value_or(former.value_or(0)));
}

void read_logprobs(FieldReader& fields, engine::Request& request) {
  request.logprobs = fields.boolean("logprobs").value_or(false);
  const int64_t n_top = fields.integer("top_logprobs", 0, kMaxTopLogprobs).value_or(0);
  if (n_top > 0 && !request.logprobs) {
    return fields.refuse("top_logprobs", "needs 'logprobs': true");
  }
  request.n_top_logprobs = static_cast<uint32_t>(n_top);
}

}  // namespace

void read_chat_call(FieldReader& fields, const CallContext& c, TextCall& call) {
  read_generation_fields(fields, c, call);
  read_max_tokens(fields, call.request);
  check_lengths(fields, call);
  read_logprobs(fields, call.request);
  ChatPromptFields chat = read_chat_prompt_fields(fields, c);
  accept_neutral_fields(fields);
  fields.finish();
  if (!fields.ok()) return;
  auto prompt = make_chat_prompt(fields, c, std::move(chat), call.add_bos);
  if (!prompt) return;
  call.prompts.push_back(*std::move(prompt));
  check_context(fields, c, "messages", call);
}

}  // namespace bp::server
