#pragma once
// The text of one choice as its tokens come.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/engine/stop_matcher.hpp"
#include "core/text/detokenizer.hpp"

namespace bp::engine {

class AnswerText {
 public:
  // tokenizer: null where the model has none, then the text stays empty. last_prompt_token decides
  // whether the answer begins a text or goes on with one. shown: as Request::shown_tokens.
  AnswerText(const text::Tokenizer* tokenizer, bool special_text, std::vector<int32_t> shown,
             int32_t last_prompt_token, std::vector<std::string> stops);

  // The text that is certain after this token. Stop strings that begin before `may_stop` is first
  // true do not count.
  std::string push(int32_t token, bool may_stop);
  // What was held back, when the answer ends without a stop string.
  std::string flush();
  [[nodiscard]] const std::optional<std::string>& found_stop() const { return stop_.found(); }

 private:
  std::optional<text::Detokenizer> detokenizer_;
  std::vector<int32_t> shown_;
  StopMatcher stop_;
};

}  // namespace bp::engine
