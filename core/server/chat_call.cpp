#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
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

void set_output(const CallContext& c, const ChatPromptFields& chat, std::string_view prompt,
                TextCall& call) {
  text::chat::OutputSettings output = chat.output;
  const nlohmann::ordered_json& last = chat.variables["messages"].back()["content"];
  const std::string begun =
      chat.continue_final_message && last.is_string() ? last.get<std::string>() : std::string();
  output.lead = text::chat::prompt_lead(*output.dialect, prompt, begun);
  call.request.shown_tokens =
      text::chat::marker_tokens(*output.dialect, !output.tools.empty(), *c.model.tokenizer);
  call.output = std::move(output);
}

}  // namespace

void read_chat_call(FieldReader& fields, const CallContext& c, TextCall& call) {
  read_generation_fields(fields, c, call);
  read_max_tokens(fields, call.request);
  check_lengths(fields, call);
  read_logprobs(fields, call.request);
  const ChatPromptFields chat = read_chat_prompt_fields(fields, c);
  accept_neutral_fields(fields);
  fields.finish();
  if (!fields.ok()) return;
  auto prompt = make_chat_prompt(fields, c, chat, call.add_bos);
  if (!prompt) return;
  set_output(c, chat, prompt->text, call);
  call.prompts.push_back(*std::move(prompt));
  check_context(fields, c, "messages", call);
}

}  // namespace bp::server
