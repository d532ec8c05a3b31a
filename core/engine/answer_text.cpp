#include "core/engine/answer_text.hpp"

#include <algorithm>
#include <utility>

namespace bp::engine {

AnswerText::AnswerText(const text::Tokenizer* tokenizer, bool special_text,
                       std::vector<int32_t> shown, int32_t last_prompt_token,
                       std::vector<std::string> stops)
    : shown_(std::move(shown)), stop_(std::move(stops)) {
  if (tokenizer == nullptr) return;
  const bool at_start = tokenizer->is_special(last_prompt_token);
  detokenizer_.emplace(*tokenizer, text::DecodeOptions{special_text, at_start});
}

std::string AnswerText::push(int32_t token, bool may_stop) {
  if (!detokenizer_) return {};
  std::string text;
  detokenizer_->append(token, text, std::ranges::binary_search(shown_, token));
  return may_stop ? stop_.push(text) : text;
}

std::string AnswerText::flush() {
  if (!detokenizer_) return {};
  const std::string rest = stop_.push(detokenizer_->flush());
  return rest + stop_.flush();
}

}  // namespace bp::engine
