#pragma once
// A generated answer to content, reasoning and tool calls, as it comes.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/text/chat_output/dialect.hpp"
#include "core/text/chat_output/output_event.hpp"
#include "core/text/chat_output/tool.hpp"

namespace bp::text {
class Tokenizer;
}

namespace bp::text::chat {

struct OutputSettings {
  const Dialect* dialect = nullptr;  // of dialects()
  Tools tools;                       // none: what looks like a call is content
  uint32_t max_calls = UINT32_MAX;   // behind the last one nothing is said
  uint32_t n_earlier_calls = 0;      // in the conversation
  std::string lead;                  // what the prompt has begun for the answer, of prompt_lead
};

// One answer. The events do not depend on where the text was cut into pieces, but for where pieces
// of content, reasoning and arguments are cut themselves. Any text is an answer: what is no call is
// content.
class OutputParser {
 public:
  // The settings outlive it.
  static std::unique_ptr<OutputParser> create(const OutputSettings& settings);
  virtual ~OutputParser() = default;

  // Valid UTF-8 in, valid UTF-8 out.
  OutputEvents push(std::string_view text);
  // The answer has ended: what was held back.
  OutputEvents finish();

  [[nodiscard]] uint32_t n_calls() const { return out_.n_calls(); }
  // The last call allowed is complete.
  [[nodiscard]] bool is_over() const { return out_.is_over(); }

 protected:
  explicit OutputParser(const OutputSettings& settings) : out_(settings.max_calls) {}
  // Reads on in `held` and takes away what it has read; false where more text is needed.
  virtual bool step(std::string& held, bool at_end) = 0;

  EventWriter out_;

 private:
  std::string held_;
};

// The end of a prompt that belongs to the answer: an opened block of reasoning and the like.
// begun: the words of the answer with which the prompt ends, if it is to be continued.
std::string prompt_lead(const Dialect& dialect, std::string_view prompt,
                        std::string_view begun = {});

// Control tokens whose texts the parser needs to see, ascending.
std::vector<int32_t> marker_tokens(const Dialect& dialect, bool with_calls,
                                   const Tokenizer& tokenizer);

}  // namespace bp::text::chat
