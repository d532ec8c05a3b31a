#include <utility>

#include "core/server/answer_format.hpp"
#include "core/server/answer_parts.hpp"
#include "core/server/json_text.hpp"

namespace bp::server {

namespace {

constexpr std::string_view kNoLogprobs = R"(,"logprobs":null)";
constexpr std::string_view kUnfinished = R"(,"finish_reason":null)";

class ChatFormat : public AnswerFormat {
 public:
  ChatFormat(const AnswerHead& head, const TextCall& call,
             std::shared_ptr<const text::Tokenizer> tokenizer)
      : head_(answer_head(head, "chat.completion")),
        chunk_head_(answer_head(head, "chat.completion.chunk")),
        chunk_begin_(std::string(kEventBegin) + chunk_head_ + R"({"index":)"),
        chunk_end_(std::string(call.include_usage ? R"(,"usage":null})" : "}") +
                   std::string(kEventEnd)),
        tokenizer_(std::move(tokenizer)),
        logprobs_(call.request.logprobs),
        token_ids_(call.return_token_ids) {
    if (token_ids_) prompt_ids_ = call.prompts.front().ids;
  }

  void set_prompt_logprobs(uint32_t, std::vector<engine::PositionLogprobs>) override {}

  void append_begin(uint32_t choice, std::string& out) override {
    begin_chunk(choice, out);
    out += R"(,"delta":{"role":"assistant","content":""})";
    out += kNoLogprobs;
    out += kUnfinished;
    out += "}]";
    if (token_ids_) append_ids_member("prompt_token_ids", prompt_ids_, out);
    out += chunk_end_;
  }

  void append_delta(uint32_t choice, const engine::Delta& delta, std::string& out) override {
    if (delta.text.empty() && !logprobs_ && !token_ids_) return;
    begin_chunk(choice, out);
    out += R"(,"delta":{"content":")";
    append_escaped(delta.text, out);
    out += "\"}";
    append_logprobs(delta.logprobs, out);
    out += kUnfinished;
    if (token_ids_) append_ids_member("token_ids", delta.tokens, out);
    out += "}]";
    out += chunk_end_;
  }

  void append_finish(uint32_t choice, engine::FinishReason reason, std::string& out) override {
    begin_chunk(choice, out);
    out += R"(,"delta":{})";
    out += kNoLogprobs;
    append_finish_reason(reason, out);
    out += "}]";
    out += chunk_end_;
  }

  void append_usage(const UsageTotals& usage, std::string& out) override {
    append_usage_event(chunk_head_, usage, out);
  }

  std::string whole(std::span<const ChoiceText> choices, const UsageTotals& usage) override {
    std::string out = head_;
    for (size_t i = 0; i < choices.size(); ++i) {
      out += i == 0 ? R"({"index":)" : R"(,{"index":)";
      append_number(i, out);
      out += R"(,"message":{"role":"assistant","content":)";
      append_string(choices[i].text, out);
      out += R"(,"refusal":null})";
      append_logprobs(choices[i].logprobs, out);
      append_finish_reason(choices[i].reason, out);
      if (token_ids_) append_ids_member("token_ids", choices[i].tokens, out);
      out += '}';
    }
    out += ']';
    append_usage_member(usage, out);
    if (token_ids_) append_ids_member("prompt_token_ids", prompt_ids_, out);
    return out + '}';
  }

 private:
  void begin_chunk(uint32_t choice, std::string& out) const {
    out += chunk_begin_;
    append_number(choice, out);
  }

  void append_token(const engine::TokenLogprob& token, std::string& out) const {
    const std::string_view bytes = tokenizer_->token_bytes(token.token, true);
    out += R"({"token":)";
    append_string(bytes, out);
    out += R"(,"logprob":)";
    append_logprob(token.logprob, out);
    out += R"(,"bytes":[)";
    for (size_t i = 0; i < bytes.size(); ++i) {
      if (i > 0) out += ',';
      append_number(static_cast<uint8_t>(bytes[i]), out);
    }
    out += ']';
  }

  void append_logprobs(const std::vector<engine::PositionLogprobs>& positions,
                       std::string& out) const {
    if (!logprobs_) {
      out += kNoLogprobs;
      return;
    }
    out += R"(,"logprobs":{"content":[)";
    for (size_t i = 0; i < positions.size(); ++i) {
      if (i > 0) out += ',';
      append_token(positions[i].chosen, out);
      out += R"(,"top_logprobs":[)";
      for (size_t k = 0; k < positions[i].top.size(); ++k) {
        if (k > 0) out += ',';
        append_token(positions[i].top[k], out);
        out += '}';
      }
      out += "]}";
    }
    out += R"(],"refusal":null})";
  }

  std::string head_;
  std::string chunk_head_;
  std::string chunk_begin_;
  std::string chunk_end_;
  std::shared_ptr<const text::Tokenizer> tokenizer_;
  bool logprobs_;
  bool token_ids_;
  std::vector<int32_t> prompt_ids_;
};

}  // namespace

std::unique_ptr<AnswerFormat> make_chat_format(AnswerHead head, const TextCall& call,
                                               std::shared_ptr<const text::Tokenizer> tokenizer) {
  return std::make_unique<ChatFormat>(head, call, std::move(tokenizer));
}

}  // namespace bp::server
