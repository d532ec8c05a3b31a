#include <utility>

#include "core/server/answer_format.hpp"
#include "core/server/answer_parts.hpp"
#include "core/server/chat_choice.hpp"
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
        output_(call.output),
        logprobs_(call.request.logprobs),
        token_ids_(call.return_token_ids) {
    if (token_ids_) prompt_ids_ = call.prompts.front().ids;
    choices_.reserve(call.request.n);
    for (uint32_t i = 0; i < call.request.n; ++i) choices_.emplace_back(output_);
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
    auto messages = choices_[choice].stream(delta.text);
    if (messages.empty() && (logprobs_ || token_ids_)) messages.emplace_back(R"("content":"")");
    for (const std::string& message : messages) {
      // The tokens are told with the first of what they bring.
      const bool is_first = &message == &messages.front();
      append_message_chunk(choice, message, is_first ? &delta : nullptr, out);
    }
  }

  void append_finish(uint32_t choice, engine::FinishReason reason, std::string& out) override {
    for (const std::string& message : choices_[choice].stream_end()) {
      append_message_chunk(choice, message, nullptr, out);
    }
    begin_chunk(choice, out);
    out += R"(,"delta":{})";
    out += kNoLogprobs;
    choices_[choice].append_finish_reason(reason, out);
    out += "}]";
    out += chunk_end_;
  }

  void append_usage(const UsageTotals& usage, std::string& out) override {
    append_usage_event(chunk_head_, usage, out);
  }

  void read(uint32_t choice, std::string_view text) override { choices_[choice].read(text); }
  [[nodiscard]] bool is_over(uint32_t choice) const override { return choices_[choice].is_over(); }

  std::string whole(std::span<const ChoiceText> choices, const UsageTotals& usage) override {
    std::string out = head_;
    for (size_t i = 0; i < choices.size(); ++i) {
      out += i == 0 ? R"({"index":)" : R"(,{"index":)";
      append_number(i, out);
      out += R"(,"message":)";
      choices_[i].end();
      choices_[i].append_message(out);
      append_logprobs(choices[i].logprobs, out);
      choices_[i].append_finish_reason(choices[i].reason, out);
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

  // message: the inside of the delta. tokens: told beside it, or null.
  void append_message_chunk(uint32_t choice, std::string_view message, const engine::Delta* tokens,
                            std::string& out) const {
    begin_chunk(choice, out);
    out += R"(,"delta":{)";
    out += message;
    out += '}';
    if (tokens != nullptr) {
      append_logprobs(tokens->logprobs, out);
    } else {
      out += kNoLogprobs;
    }
    out += kUnfinished;
    if (tokens != nullptr && token_ids_) append_ids_member("token_ids", tokens->tokens, out);
    out += "}]";
    out += chunk_end_;
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
  const text::chat::OutputSettings output_;
  std::vector<ChatChoice> choices_;
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
