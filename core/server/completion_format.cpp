#include <utility>

#include "core/server/answer_format.hpp"
#include "core/server/answer_parts.hpp"
#include "core/server/json_text.hpp"
#include "core/server/legacy_logprobs.hpp"

namespace bp::server {

namespace {

class CompletionFormat : public AnswerFormat {
 public:
  CompletionFormat(const AnswerHead& head, const TextCall& call,
                   std::shared_ptr<const text::Tokenizer> tokenizer)
      : head_(answer_head(head, "text_completion")),
        chunk_begin_(std::string(kEventBegin) + head_ + R"({"index":)"),
        chunk_end_(std::string(call.include_usage ? R"(],"usage":null})" : "]}") +
                   std::string(kEventEnd)),
        tokenizer_(std::move(tokenizer)),
        prompts_(call.prompts),
        prompt_logprobs_(call.prompts.size()),
        n_(call.request.n),
        echo_(call.echo),
        logprobs_(call.request.logprobs),
        token_ids_(call.return_token_ids) {
    if (logprobs_) add_offsets();
  }

  void set_prompt_logprobs(uint32_t prompt,
                           std::vector<engine::PositionLogprobs> logprobs) override {
    prompt_logprobs_[prompt] = std::move(logprobs);
  }

  void append_begin(uint32_t choice, std::string& out) override {
    if (!echo_ && !token_ids_) return;
    std::vector<LegacyLogprob> entries;
    if (echo_ && logprobs_) add_prompt(choice / n_, entries);
    begin_chunk(choice, echo_ ? prompts_[choice / n_].text : std::string(), entries, out);
    out += R"(,"finish_reason":null)";
    if (token_ids_) append_ids_member("prompt_token_ids", prompts_[choice / n_].ids, out);
    out += '}';
    out += chunk_end_;
  }

  void append_delta(uint32_t choice, const engine::Delta& delta, std::string& out) override {
    if (delta.text.empty() && !logprobs_ && !token_ids_) return;
    std::vector<LegacyLogprob> entries;
    add_generated(choice, delta.tokens, delta.logprobs, entries);
    begin_chunk(choice, delta.text, entries, out);
    out += R"(,"finish_reason":null)";
    if (token_ids_) append_ids_member("token_ids", delta.tokens, out);
    out += '}';
    out += chunk_end_;
  }

  void append_finish(uint32_t choice, engine::FinishReason reason, std::string& out) override {
    out += chunk_begin_;
    append_number(choice, out);
    out += R"(,"text":"","logprobs":null)";
    append_finish_reason(reason, out);
    out += '}';
    out += chunk_end_;
  }

  void append_usage(const UsageTotals& usage, std::string& out) override {
    append_usage_event(head_, usage, out);
  }

  std::string whole(std::span<const ChoiceText> choices, const UsageTotals& usage) override {
    std::string out = head_;
    for (uint32_t i = 0; i < choices.size(); ++i) {
      if (i > 0) out += ',';
      append_choice(i, choices[i], out);
    }
    out += ']';
    append_usage_member(usage, out);
    return out + '}';
  }

 private:
  // As the engine makes the text: control tokens do not show, and a space at the beginning drops
  // behind a prompt that ends with a special token.
  void add_offsets() {
    offsets_.reserve(prompts_.size() * n_);
    for (const Prompt& prompt : prompts_) {
      const bool at_start = !prompt.ids.empty() && tokenizer_->is_special(prompt.ids.back());
      const uint64_t begin = echo_ ? count_characters(prompt.text) : 0;
      for (uint32_t i = 0; i < n_; ++i) {
        offsets_.emplace_back(*tokenizer_,
                              text::DecodeOptions{.special = false, .at_start = at_start}, begin);
      }
    }
  }

  void append_choice(uint32_t index, const ChoiceText& choice, std::string& out) {
    const Prompt& prompt = prompts_[index / n_];
    out += R"({"index":)";
    append_number(index, out);
    std::vector<LegacyLogprob> entries;
    if (echo_ && logprobs_) add_prompt(index / n_, entries);
    add_generated(index, choice.tokens, choice.logprobs, entries);
    append_text(echo_ ? prompt.text + choice.text : choice.text, entries, out);
    append_finish_reason(choice.reason, out);
    if (token_ids_) {
      append_ids_member("prompt_token_ids", prompt.ids, out);
      append_ids_member("token_ids", choice.tokens, out);
    }
    out += '}';
  }

  void begin_chunk(uint32_t choice, const std::string& text, std::span<const LegacyLogprob> entries,
                   std::string& out) {
    out += chunk_begin_;
    append_number(choice, out);
    append_text(text, entries, out);
  }

  void append_text(const std::string& text, std::span<const LegacyLogprob> entries,
                   std::string& out) const {
    out += R"(,"text":)";
    append_string(text, out);
    if (!logprobs_) {
      out += R"(,"logprobs":null)";
      return;
    }
    out += R"(,"logprobs":)";
    append_legacy_logprobs(entries, *tokenizer_, out);
  }

  void add_prompt(uint32_t prompt, std::vector<LegacyLogprob>& entries) const {
    const Prompt& p = prompts_[prompt];
    const auto& logprobs = prompt_logprobs_[prompt];
    TextOffsets offsets(*tokenizer_, {.special = true, .at_start = true}, 0);
    for (size_t i = 0; i < p.ids.size(); ++i) {
      const bool is_known = i > 0 && i - 1 < logprobs.size();
      const bool is_text = i > 0 || !p.has_added_bos;
      entries.push_back(
          {p.ids[i], is_known ? &logprobs[i - 1] : nullptr, is_text ? offsets.push(p.ids[i]) : 0});
    }
  }

  void add_generated(uint32_t choice, const std::vector<int32_t>& tokens,
                     const std::vector<engine::PositionLogprobs>& logprobs,
                     std::vector<LegacyLogprob>& entries) {
    if (!logprobs_) return;
    for (size_t i = 0; i < tokens.size() && i < logprobs.size(); ++i) {
      entries.push_back({tokens[i], &logprobs[i], offsets_[choice].push(tokens[i])});
    }
  }

  std::string head_;
  std::string chunk_begin_;
  std::string chunk_end_;
  std::shared_ptr<const text::Tokenizer> tokenizer_;
  std::vector<Prompt> prompts_;
  std::vector<std::vector<engine::PositionLogprobs>> prompt_logprobs_;
  uint32_t n_;
  std::vector<TextOffsets> offsets_;  // of each choice's answer, where logprobs are asked for
  bool echo_;
  bool logprobs_;
  bool token_ids_;
};

}  // namespace

std::unique_ptr<AnswerFormat> make_completion_format(
    AnswerHead head, const TextCall& call, std::shared_ptr<const text::Tokenizer> tokenizer) {
  return std::make_unique<CompletionFormat>(head, call, std::move(tokenizer));
}

}  // namespace bp::server
