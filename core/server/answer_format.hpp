#pragma once
// How an answer looks on the wire. Everything is appended to texts as it is, since a stream makes
// one event per token.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/engine/request.hpp"
#include "core/server/text_call.hpp"

namespace bp::server {

struct UsageTotals {
  uint64_t n_prompt = 0;
  uint64_t n_cached = 0;
  uint64_t n_generated = 0;
};

// One choice, complete.
struct ChoiceText {
  std::string text;
  std::vector<int32_t> tokens;
  std::vector<engine::PositionLogprobs> logprobs;  // of the tokens, where asked for
  engine::FinishReason reason = engine::FinishReason::kStop;
};

// What all events and answers of a call begin with.
struct AnswerHead {
  std::string id;
  int64_t created = 0;  // seconds since 1970
  std::string model;
};

// One thread at a time. Choices count over all prompts: prompt * n + choice.
class AnswerFormat {
 public:
  virtual ~AnswerFormat() = default;

  // Of a prompt, before anything of its choices is appended.
  virtual void set_prompt_logprobs(uint32_t prompt,
                                   std::vector<engine::PositionLogprobs> logprobs) = 0;

  // Server-sent events. `begin` stands before all others of a choice.
  virtual void append_begin(uint32_t choice, std::string& out) = 0;
  virtual void append_delta(uint32_t choice, const engine::Delta& delta, std::string& out) = 0;
  virtual void append_finish(uint32_t choice, engine::FinishReason reason, std::string& out) = 0;
  virtual void append_usage(const UsageTotals& usage, std::string& out) = 0;

  // What comes of a choice, where the answer is given in one piece.
  virtual void read(uint32_t, std::string_view) {}
  // Whether a choice has all that it may have, and the rest of its text counts for nothing.
  [[nodiscard]] virtual bool is_over(uint32_t) const { return false; }

  // The answer in one piece.
  [[nodiscard]] virtual std::string whole(std::span<const ChoiceText> choices,
                                          const UsageTotals& usage) = 0;
};

// The tokenizer and the call's prompts are those of the call; `call` is copied from.
std::unique_ptr<AnswerFormat> make_chat_format(AnswerHead head, const TextCall& call,
                                               std::shared_ptr<const text::Tokenizer> tokenizer);
std::unique_ptr<AnswerFormat> make_completion_format(
    AnswerHead head, const TextCall& call, std::shared_ptr<const text::Tokenizer> tokenizer);

}  // namespace bp::server
