#include <algorithm>
#include <array>
#include <string_view>

#include "core/text/vocabulary.hpp"

namespace bp::text {
namespace {

// Texts by which models end a turn, in files that name only one of their end tokens.
constexpr auto kEndTexts = std::to_array<std::string_view>({
    "<|im_end|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<｜end▁of▁sentence｜>",
    "<|EOT|>",
    "<EOT>",
    "<end_of_utterance>",
    "<start_function_response>",
});

constexpr std::string_view kMessageEnd = "<|end|>";
constexpr std::string_view kTurnEnd = "<|return|>";

void add_ends(Vocabulary& v, const std::vector<int32_t>& ids) {
  std::vector<int32_t>& ends = v.end_of_generation;
  for (const int32_t id : ids) {
    if (v.contains(id)) ends.push_back(id);
  }
  std::ranges::sort(ends);
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
}

}  // namespace

bool is_end_text(std::string_view text) {
  return std::ranges::find(kEndTexts, text) != kEndTexts.end();
}

void find_end_of_generation(Vocabulary& v) {
  std::vector<int32_t>& ends = v.end_of_generation;
  ends.clear();
  int32_t message_end = kNoToken;
  bool has_turn_end = false;
  for (int32_t id = 0; id < v.n_tokens(); ++id) {
    const std::string_view text = v.tokens[static_cast<size_t>(id)];
    if (!is_end_text(text)) continue;
    ends.push_back(id);
    if (text == kMessageEnd) message_end = id;
    has_turn_end = has_turn_end || text == kTurnEnd;
  }
  // Where a model has both, <|end|> closes one message of several within the same turn.
  if (has_turn_end) std::erase(ends, message_end);
  add_ends(v, {v.eos, v.eot, v.eom});
  if (v.types.empty() && !ends.empty()) v.types.resize(v.tokens.size(), TokenType::kNormal);
  for (const int32_t id : ends) v.types[static_cast<size_t>(id)] = TokenType::kControl;
}

void add_end_of_generation(Vocabulary& v, const std::vector<int32_t>& ids) {
  add_ends(v, ids);
  for (const int32_t id : ids) {
    if (!v.contains(id) || v.type(id) == TokenType::kNormal) continue;
    v.types[static_cast<size_t>(id)] = TokenType::kControl;
  }
}

}  // namespace bp::text
