#include "core/server/answer_parts.hpp"

#include <fmt/format.h>

#include <iterator>

#include "core/server/json_text.hpp"

namespace bp::server {

std::string answer_head(const AnswerHead& head, std::string_view object) {
  return fmt::format(R"({{"id":{},"object":"{}","created":{},"model":{},"choices":[)",
                     json_string(head.id), object, head.created, json_string(head.model));
}

void append_usage_member(const UsageTotals& usage, std::string& out) {
  fmt::format_to(std::back_inserter(out),
                 R"(,"usage":{{"prompt_tokens":{},"completion_tokens":{},"total_tokens":{},)"
                 R"("prompt_tokens_details":{{"cached_tokens":{}}}}})",
                 usage.n_prompt, usage.n_generated, usage.n_prompt + usage.n_generated,
                 usage.n_cached);
}

void append_finish_reason(engine::FinishReason reason, std::string& out) {
  out += reason == engine::FinishReason::kLength ? R"(,"finish_reason":"length")"
                                                 : R"(,"finish_reason":"stop")";
}

void append_ids_member(std::string_view name, std::span<const int32_t> ids, std::string& out) {
  out += ",\"";
  out += name;
  out += "\":";
  append_ids(ids, out);
}

void append_usage_event(const std::string& head, const UsageTotals& usage, std::string& out) {
  out += kEventBegin;
  out += head;
  out += ']';
  append_usage_member(usage, out);
  out += '}';
  out += kEventEnd;
}

}  // namespace bp::server
