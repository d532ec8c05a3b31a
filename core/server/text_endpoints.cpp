#include "core/server/text_endpoints.hpp"

#include <fmt/format.h>

#include <optional>
#include <vector>

#include "core/server/chat_prompt.hpp"
#include "core/server/json_text.hpp"
#include "core/server/prompt.hpp"

namespace bp::server {

namespace {

constexpr size_t kMaxTextBytes = 4 << 20;
constexpr size_t kMaxIds = 1'000'000;

std::vector<int32_t> encode_text(FieldReader& fields, const CallContext& c) {
  const bool special = fields.boolean("add_special_tokens").value_or(true);
  auto text = fields.text("prompt", kMaxTextBytes);
  const auto content = fields.text("content", kMaxTextBytes);
  if (text && content) fields.refuse("content", "stands beside 'prompt'");
  if (!text) text = content;
  if (!text && fields.ok()) fields.refuse("prompt", "is missing");
  fields.finish();
  if (!fields.ok()) return {};
  return c.model.tokenizer->encode(*text, {.add_special = special});
}

std::vector<int32_t> encode_chat(FieldReader& fields, const CallContext& c) {
  const bool special = fields.boolean("add_special_tokens").value_or(true);
  ChatPromptFields chat = read_chat_prompt_fields(fields, c);
  fields.finish();
  if (!fields.ok()) return {};
  auto prompt = make_chat_prompt(fields, c, chat, special);
  return prompt ? std::move(prompt->ids) : std::vector<int32_t>();
}

std::string rendered(const CallContext& c, const Prompt& prompt) {
  std::string out = R"({"model":)";
  append_string(c.model.id, out);
  out += R"(,"prompt":)";
  append_string(
      prompt.text.empty() ? c.model.tokenizer->decode(prompt.ids, {.special = true}) : prompt.text,
      out);
  out += R"(,"token_ids":)";
  append_ids(prompt.ids, out);
  return out +
         fmt::format(R"(,"count":{},"max_model_len":{}}})", prompt.ids.size(), c.model.context);
}

}  // namespace

std::string tokenize(FieldReader& fields, const CallContext& c) {
  const auto ids = fields.has("messages") ? encode_chat(fields, c) : encode_text(fields, c);
  std::string out = R"({"tokens":)";
  append_ids(ids, out);
  return out + fmt::format(R"(,"count":{},"max_model_len":{}}})", ids.size(), c.model.context);
}

std::string detokenize(FieldReader& fields, const CallContext& c) {
  const text::Tokenizer& tokenizer = *c.model.tokenizer;
  const auto ids =
      fields.ids("tokens", kMaxIds, static_cast<uint32_t>(tokenizer.vocabulary().n_tokens()));
  if (!ids) fields.refuse("tokens", "is missing");
  fields.finish();
  if (!fields.ok()) return {};
  return R"({"prompt":)" + json_string(tokenizer.decode(*ids, {.special = true})) + "}";
}

std::string render_chat_call(FieldReader& fields, const CallContext& c) {
  TextCall call;
  read_chat_call(fields, c, call);
  return fields.ok() ? rendered(c, call.prompts.front()) : std::string();
}

std::string render_completion_call(FieldReader& fields, const CallContext& c) {
  TextCall call;
  read_completion_call(fields, c, call);
  if (!fields.ok()) return {};
  std::string out = "[";
  for (size_t i = 0; i < call.prompts.size(); ++i) {
    if (i > 0) out += ',';
    out += rendered(c, call.prompts[i]);
  }
  return out + ']';
}

}  // namespace bp::server
